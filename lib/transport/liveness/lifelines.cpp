#include "transport/liveness/lifelines.hpp"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <thread>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "base/quiet_task.hpp"
#include "transport/store_bootstrap.hpp"

namespace terrace::detail {

namespace {

using std::chrono::milliseconds;

constexpr std::size_t most_lines = 32;  // bits in the result of lifelines::call()
// Longest wait for connections, and again for callers. The kernel repeats a lost connection request after a second.
constexpr milliseconds patience(1500), between_calls(100);
// Maximum of callers that have sent nothing, such as port scans: the oldest is closed for the next.
constexpr std::size_t most_silent = 128;

// Waits until one of these sockets is ready. Returns false if none is ready at a point in time, or on an error.
bool ready(std::span<pollfd> sockets, std::chrono::steady_clock::time_point until) noexcept {
    while (true) {
        const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
        const int got =
            ::poll(sockets.data(), sockets.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
        if (got > 0) return true;
        if (got == 0 || errno != EINTR) return false;
    }
}

// Calls action(rank, targets) for each rank, with the ranks to which the rank connects.
template <class Action>
void for_each_caller(const std::vector<std::vector<int>>& nodes, const Action& action) {
    for (std::size_t n = 0; n < nodes.size(); ++n)
        for (std::size_t place = 0; place < nodes[n].size(); ++place) {
            std::vector<int> targets;
            for (std::size_t ahead = 1; ahead <= nodes.size() / 2 && targets.size() < most_lines; ahead *= 2) {
                const std::vector<int>& there = nodes[(n + ahead) % nodes.size()];
                targets.push_back(there[place % there.size()]);
            }
            action(nodes[n][place], targets);
        }
}

// Waits for a connection that has begun. Connects again if the kernel has no route to the node: just after a link has
// come up, the kernel may still remember that there was none.
bool is_answered(descriptor& call, std::uint32_t address, std::uint16_t port,
                 std::chrono::steady_clock::time_point until) noexcept {
    while (call) {
        std::array one{pollfd{.fd = call.get(), .events = POLLOUT, .revents = 0}};
        if (!ready(one, until)) return false;
        int error = 0;  // error of the connection
        socklen_t bytes = sizeof error;
        if (::getsockopt(call.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
        if (error == 0) return true;
        if (error != EHOSTUNREACH || std::chrono::steady_clock::now() + between_calls > until) return false;
        std::this_thread::sleep_for(between_calls);
        call = begin_call(address, port);
    }
    return false;
}

bool send_all(const descriptor& fd, const void* data, std::size_t bytes) noexcept {
    return ::send(fd.get(), data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

constexpr int heartbeats = 8;  // number of heartbeats within the longest silence

// Returns the bytes that the other end's kernel has acknowledged; 0 before Linux 4.1, which does not count them.
std::uint64_t acknowledged_on(int socket) noexcept {
    tcp_info info{};
    socklen_t bytes = sizeof info;
    return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 ? info.tcpi_bytes_acked : 0;
}

}  // namespace

// ---- connecting -----------------------------------------------------------------------------------------------------

// Listener of a rank.
struct lifelines::place {
    job_key key{};  // rank 0's key is the job key
    std::uint32_t address = 0;
    std::uint16_t port = 0;  // 0: the rank does not listen
    port_range full{};       // range in which no port is free
};

lifelines::lifelines(team& ranks, const std::vector<std::vector<int>>& nodes, std::chrono::duration<double> silence,
                     const network_interface& on, port_range ports)
    : silence_(silence) {
    const descriptor listener = on.address != 0 ? listen_at(on.address, ports) : descriptor();
    place own{.key = {random_number(), random_number()}, .address = on.address, .port = port_of(listener)};
    if (on.address != 0 && own.port == 0) own.full = ports;
    std::vector<place> places(at(ranks.size()));
    ranks.gather_all(&own, places.data(), sizeof own);
    for (std::size_t r = 0; r < places.size(); ++r)
        if (const place& p = places[r]; p.full.first > 0)
            throw transport_error("lifelines", "bind", EADDRINUSE,
                                  fmt::format("rank {} finds no free port from {} (TERRACE_PORTS) at {}",
                                              ranks.members()[r], text_of(p.full), address_text(p.address)));

    std::uint32_t own_lines = 0;
    for_each_caller(nodes, [&](int rank, const std::vector<int>& targets) {
        if (rank == ranks.rank()) own_lines = call(ranks, places, targets);
    });
    std::vector<std::uint32_t> all_lines(at(ranks.size()));
    ranks.gather_all(&own_lines, all_lines.data(), sizeof own_lines);
    const auto member = [&](int rank) { return ranks.members()[at(rank)]; };
    counts_.resize(at(*std::ranges::max_element(ranks.members())) + 1);
    int expected = 0;
    for_each_caller(nodes, [&](int rank, const std::vector<int>& targets) {
        for (std::size_t i = 0; i < targets.size(); ++i) {
            if ((all_lines[at(rank)] >> i & 1) == 0) continue;
            ++counts_[at(member(rank))];
            ++counts_[at(member(targets[i]))];
            expected += targets[i] == ranks.rank();
        }
    });
    answer(listener, places.front().key, member(ranks.rank()), expected);
    begin_to_answer();
}

// Connects to all targets at once. Returns one bit for each target, set if the target has answered.
std::uint32_t lifelines::call(const team& ranks, const std::vector<place>& places, const std::vector<int>& targets) {
    std::vector<descriptor> calls;
    for (const int t : targets) {
        const place& p = places[at(t)];
        calls.push_back(p.port != 0 ? begin_call(p.address, p.port) : descriptor());
    }
    const auto member = [&](int rank) { return ranks.members()[at(rank)]; };
    const auto until = clock::now() + patience;
    std::uint32_t answered = 0;
    for (std::size_t i = 0; i < targets.size(); ++i) {
        const greeting hello{places.front().key, member(ranks.rank()), member(targets[i])};
        const place& p = places[at(targets[i])];
        if (is_answered(calls[i], p.address, p.port, until) && send_all(calls[i], &hello, sizeof hello)) {
            add(hello.to, std::move(calls[i]), false);
            answered |= std::uint32_t{1} << i;
        } else {
            missing_.push_back(hello.to);
        }
    }
    return answered;
}

// Answers callers that send the job key and this rank's number. Silent callers do not delay others.
void lifelines::answer(const descriptor& listener, const job_key& key, int me, int expected) {
    const auto until = clock::now() + patience;
    std::vector<descriptor> callers;  // callers that have sent nothing yet
    while (expected > 0 && listener) {
        std::vector<pollfd> polled{{.fd = listener.get(), .events = POLLIN, .revents = 0}};
        for (const descriptor& c : callers) polled.push_back({.fd = c.get(), .events = POLLIN, .revents = 0});
        if (!ready(polled, until)) return;
        for (std::size_t i = callers.size(); i-- > 0;) {
            if (polled[i + 1].revents == 0) continue;
            descriptor fd = std::move(callers[i]);
            callers.erase(callers.begin() + static_cast<std::ptrdiff_t>(i));
            greeting hello;
            if (::recv(fd.get(), &hello, sizeof hello, 0) != sizeof hello || hello.key != key || hello.to != me ||
                !send_all(fd, &accepted, 1))
                continue;
            add(hello.from, std::move(fd), true);
            --expected;
        }
        if (polled.front().revents == 0) continue;
        if (callers.size() == most_silent) callers.erase(callers.begin());
        descriptor next(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (next) callers.push_back(std::move(next));
    }
}

void lifelines::add(int rank, descriptor fd, bool sure) {
    const int yes = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    // Distinguishes a lossy link from a cut one: the kernel sends a byte again some ten times within 6 s, not five.
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &yes, sizeof yes);
    polled_.push_back({.fd = fd.get(), .events = POLLIN, .revents = 0});
    lines_.push_back({.rank = rank, .fd = std::move(fd), .sure = sure});
}

lifelines::~lifelines() {
    if (answerer_.valid()) {
        ::eventfd_write(ends_answers_.get(), 1);
        answerer_.get();
    }
    for (line& l : lines_) {
        if (l.failed) continue;
        read(l);  // close(2) resets a socket with unread bytes, and sent bytes may then be lost
        send_byte(l, shutdown);
    }
}

bool lifelines::send_byte(const line& l, char byte) noexcept { return ::send(l.fd.get(), &byte, 1, MSG_NOSIGNAL) == 1; }

// ---- answering ------------------------------------------------------------------------------------------------------

void lifelines::begin_to_answer() {
    ends_answers_ = descriptor(::eventfd(0, EFD_CLOEXEC));
    if (lines_.empty() || !ends_answers_) return;
    answerer_ = start_quiet_task([this] { answer_heartbeats(); });
    // If no thread could start, this rank does not reply, and its peers do not expect replies.
    if (answerer_.wait_for(milliseconds(0)) == std::future_status::deferred) return;
    const std::lock_guard lock(lines_lock_);
    for (const line& l : lines_) send_byte(l, answers);
}

// Replies to heartbeats of ranks that wait. Sleeps until a byte arrives or a connection ends.
void lifelines::answer_heartbeats() noexcept {
    std::vector<pollfd> all;
    while (true) {
        {
            const std::lock_guard lock(lines_lock_);
            all = polled_;
        }
        all.push_back({.fd = ends_answers_.get(), .events = POLLIN, .revents = 0});
        if (::poll(all.data(), all.size(), -1) <= 0) continue;
        if (all.back().revents != 0) return;
        const std::lock_guard lock(lines_lock_);
        for (std::size_t i = 0; i < lines_.size(); ++i)
            if (all[i].revents != 0) read(lines_[i]);
        pass_over_failed();
    }
}

// ---- looking --------------------------------------------------------------------------------------------------------

bool lifelines::look(clock::time_point now, std::vector<sighting>& found) noexcept {
    const std::lock_guard lock(lines_lock_);
    if (::poll(polled_.data(), polled_.size(), 0) > 0)
        for (std::size_t i = 0; i < lines_.size(); ++i)
            if (polled_[i].revents != 0) read(lines_[i]);
    const bool beats_now = now >= next_heartbeat_;
    if (beats_now) next_heartbeat_ = now + std::chrono::duration_cast<clock::duration>(silence_ / heartbeats);
    bool doubtful = false;
    for (line& l : lines_) {
        if (!l.failed && !l.left) look_for_answer(l, now);
        if (!l.failed && !l.left && beats_now) send_heartbeat(l, now);
        if (const std::optional<evidence> by = shown_by(l, now)) found.push_back({l.rank, *by});
        doubtful = doubtful || is_in_doubt(l, now);
    }
    pass_over_failed();
    return doubtful;
}

std::optional<evidence> lifelines::shown_by(const line& l, clock::time_point now) const noexcept {
    if (l.failed && l.left) return now - l.failed_at > silence_ ? evidence::process_left : evidence::has_left;
    if (l.failed) return l.sure ? std::optional(l.by) : std::nullopt;
    if (l.left) return {};
    if (!l.heartbeats.missing_since() && l.asked && now - *l.asked > silence_) return evidence::silent;
    if (l.heartbeats.last() && now - *l.heartbeats.last() < silence_ / 2) return evidence::acknowledged;
    return {};
}

// Returns true if more than two heartbeats are unanswered. The reason, or a reply, is then known soon.
bool lifelines::is_in_doubt(const line& l, clock::time_point now) const noexcept {
    const auto for_long = [&](const auto& since) { return since && now - *since > 2.5 * silence_ / heartbeats; };
    return !l.failed && !l.left && (for_long(l.heartbeats.missing_since()) || for_long(l.asked));
}

void lifelines::send_heartbeat(line& l, clock::time_point now) const noexcept {
    const std::uint64_t acknowledged = acknowledged_on(l.fd.get());
    if (!send_byte(l, heartbeat)) {
        if (errno != EAGAIN) fail(l, errno);
        return;
    }
    l.heartbeats.sent(now, acknowledged);
    if (!l.asked && l.answers) l.asked = now;
}

// Gets unacknowledged bytes from the kernel, since its own timeouts are longer and differ between connections.
void lifelines::look_for_answer(line& l, clock::time_point now) const noexcept {
    int outstanding = 0;
    if (!l.heartbeats.missing_since() || ::ioctl(l.fd.get(), SIOCOUTQ, &outstanding) != 0) return;
    l.heartbeats.look(now, outstanding, acknowledged_on(l.fd.get()));
    if (l.heartbeats.missing_since() && now - *l.heartbeats.missing_since() > silence_) {
        l.failed = true;
        l.by = evidence::unacknowledged;
    }
}

// Reads all bytes that have arrived. If the connection has ended, records the reason.
void lifelines::read(line& l) noexcept {
    std::array<char, 256> bytes{};
    while (!l.failed) {
        const ssize_t got = ::recv(l.fd.get(), bytes.data(), bytes.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) return fail(l, got == 0 ? 0 : errno);
        for (const char c : std::span(bytes).first(static_cast<std::size_t>(got))) receive(l, c);
    }
}

void lifelines::receive(line& l, char byte) noexcept {
    switch (byte) {
        case accepted: l.sure = true; break;
        case answers: l.answers = true; break;
        case heartbeat: send_byte(l, reply); break;
        case reply: l.asked.reset(); break;
        case shutdown: l.left = true; break;
        default: break;
    }
}

// The kernel reports an error once. Bytes that arrived before, such as a shutdown message, can still be read.
void lifelines::fail(line& l, int code) noexcept {
    const bool closed = code == 0 || code == ECONNRESET || code == EPIPE;
    l.by = closed ? evidence::connection_closed : evidence::unacknowledged;
    std::array<char, 256> bytes{};
    for (ssize_t got = 1; got > 0;) {
        got = ::recv(l.fd.get(), bytes.data(), bytes.size(), 0);
        for (ssize_t i = 0; i < got; ++i) l.left = l.left || bytes[at(static_cast<int>(i))] == shutdown;
    }
    l.failed = true;
    l.failed_at = clock::now();
}

}  // namespace terrace::detail
