#include "transport/liveness/lifelines.hpp"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include "base/index.hpp"
#include "base/quiet_task.hpp"

namespace terrace::detail {

namespace {

constexpr int pulses = 8;  // within the longest silence

// Bytes that the other end's kernel has acknowledged; 0 before Linux 4.1, which does not count them.
std::uint64_t acknowledged_on(int socket) noexcept {
    tcp_info info{};
    socklen_t bytes = sizeof info;
    return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 ? info.tcpi_bytes_acked : 0;
}

// Starts a thread that gets no signals: they are the program's.
template <class Action>
std::thread start_quiet_thread(Action action) {
    const blocked_signals none;
    try {
        return std::thread(std::move(action));
    } catch (const std::system_error&) {
        return {};  // too many threads: nobody answers, and nobody expects that
    }
}

}  // namespace

lifelines::~lifelines() {
    if (answerer_.joinable()) {
        ::eventfd_write(ends_answers_.get(), 1);
        answerer_.join();
    }
    for (line& l : lines_) {
        if (l.failed) continue;
        read(l);  // a socket with bytes unread is reset, and what was sent may be lost
        send_byte(l, farewell);
    }
}

bool lifelines::send_byte(const line& l, char byte) noexcept { return ::send(l.fd.get(), &byte, 1, MSG_NOSIGNAL) == 1; }

// ---- answering ------------------------------------------------------------------------------------------------------

void lifelines::begin_to_answer() {
    ends_answers_ = descriptor(::eventfd(0, EFD_CLOEXEC));
    if (lines_.empty() || !ends_answers_) return;
    answerer_ = start_quiet_thread([this] { answer_pulses(); });
    if (!answerer_.joinable()) return;
    const std::lock_guard lock(lines_lock_);
    for (const line& l : lines_) send_byte(l, answers);
}

// Sleeps until another rank asks, which is while that one waits. What has ended is found by the others' kernel, too.
void lifelines::answer_pulses() noexcept {
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

// poll(2) does so where a descriptor is negative.
void lifelines::pass_over_failed() noexcept {
    for (std::size_t i = 0; i < lines_.size(); ++i)
        if (lines_[i].failed) polled_[i].fd = -1;
}

// ---- looking --------------------------------------------------------------------------------------------------------

bool lifelines::look(clock::time_point now, std::vector<sighting>& found) noexcept {
    const std::lock_guard lock(lines_lock_);
    if (::poll(polled_.data(), polled_.size(), 0) > 0)
        for (std::size_t i = 0; i < lines_.size(); ++i)
            if (polled_[i].revents != 0) read(lines_[i]);
    const bool pulses_now = now >= next_pulse_;
    if (pulses_now) next_pulse_ = now + std::chrono::duration_cast<clock::duration>(silence_ / pulses);
    bool doubtful = false;
    for (line& l : lines_) {
        if (!l.failed && !l.left) look_for_answer(l, now);
        if (!l.failed && !l.left && pulses_now) send_pulse(l, now);
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
    if (!l.pulses.missing_since() && l.asked && now - *l.asked > silence_) return evidence::silent;
    if (l.pulses.last() && now - *l.pulses.last() < silence_ / 2) return evidence::acknowledged;
    return {};
}

// Two pulses and more are unanswered: soon it is clear why, or an answer comes.
bool lifelines::is_in_doubt(const line& l, clock::time_point now) const noexcept {
    const auto for_long = [&](const auto& since) { return since && now - *since > 2.5 * silence_ / pulses; };
    return !l.failed && !l.left && (for_long(l.pulses.missing_since()) || for_long(l.asked));
}

void lifelines::send_pulse(line& l, clock::time_point now) const noexcept {
    const std::uint64_t acknowledged = acknowledged_on(l.fd.get());
    if (!send_byte(l, pulse)) {
        if (errno != EAGAIN) fail(l, errno);
        return;
    }
    l.pulses.sent(now, acknowledged);
    if (!l.asked && l.answers) l.asked = now;
}

// The kernel has what has not been acknowledged. Its own timeouts are longer, and differ from line to line.
void lifelines::look_for_answer(line& l, clock::time_point now) const noexcept {
    int outstanding = 0;
    if (!l.pulses.missing_since() || ::ioctl(l.fd.get(), SIOCOUTQ, &outstanding) != 0) return;
    l.pulses.look(now, outstanding, acknowledged_on(l.fd.get()));
    if (l.pulses.missing_since() && now - *l.pulses.missing_since() > silence_) {
        l.failed = true;
        l.by = evidence::unacknowledged;
    }
}

// Reads what has come, and why nothing more will.
void lifelines::read(line& l) noexcept {
    std::array<char, 256> bytes{};
    while (!l.failed) {
        const ssize_t got = ::recv(l.fd.get(), bytes.data(), bytes.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) return fail(l, got == 0 ? 0 : errno);
        for (const char c : std::span(bytes).first(static_cast<std::size_t>(got))) hear(l, c);
    }
}

void lifelines::hear(line& l, char byte) noexcept {
    switch (byte) {
        case welcome: l.sure = true; break;
        case answers: l.answers = true; break;
        case pulse: send_byte(l, reply); break;
        case reply: l.asked.reset(); break;
        case farewell: l.left = true; break;
        default: break;
    }
}

// The kernel says only once why. What came before, such as a farewell, can still be read.
void lifelines::fail(line& l, int code) noexcept {
    const bool closed = code == 0 || code == ECONNRESET || code == EPIPE;
    l.by = closed ? evidence::connection_closed : evidence::unacknowledged;
    std::array<char, 256> bytes{};
    for (ssize_t got = 1; got > 0;) {
        got = ::recv(l.fd.get(), bytes.data(), bytes.size(), 0);
        for (ssize_t i = 0; i < got; ++i) l.left = l.left || bytes[at(static_cast<int>(i))] == farewell;
    }
    l.failed = true;
    l.failed_at = clock::now();
}

std::vector<int> lifelines::ends() const {
    std::vector<int> ranks;
    for (const line& l : lines_) ranks.push_back(l.rank);
    return ranks;
}

}  // namespace terrace::detail
