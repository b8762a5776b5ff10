// How lifelines are made.

#include "transport/liveness/lifelines.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "base/index.hpp"

namespace terrace::detail {

namespace {

using std::chrono::milliseconds;

constexpr std::size_t most_addresses = 8, most_lines = 32;
// With a node that does not answer a call, at creation: the kernel repeats a call that was lost after a second.
constexpr milliseconds patience(1500), between_calls(100);

// IPv4 addresses of this node at which others may reach it.
std::vector<std::uint32_t> own_addresses() {
    std::vector<std::uint32_t> found;
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return found;
    for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
        const bool up = (i->ifa_flags & (IFF_UP | IFF_RUNNING | IFF_LOOPBACK)) == (IFF_UP | IFF_RUNNING);
        if (!up || i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
        if (found.size() < most_addresses)
            found.push_back(reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr.s_addr);
    }
    ::freeifaddrs(all);
    return found;
}

descriptor open_socket() noexcept {
    return descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// Listens at a port that the kernel chooses, and says which. @returns none where that is impossible
descriptor listen_somewhere(std::uint16_t& port) noexcept {
    descriptor fd = open_socket();
    sockaddr_in any{};
    any.sin_family = AF_INET;
    socklen_t bytes = sizeof any;
    if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), bytes) != 0 ||
        ::listen(fd.get(), SOMAXCONN) != 0 || ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&any), &bytes) != 0)
        return {};
    port = any.sin_port;
    return fd;
}

descriptor begin_call(std::uint32_t address, std::uint16_t port) noexcept {
    descriptor fd = open_socket();
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = address;
    to.sin_port = port;
    if (fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS)
        return {};
    return fd;
}

// Waits until a socket is ready for `events`, until a point in time.
bool ready(int fd, short events, std::chrono::steady_clock::time_point until) noexcept {
    pollfd one{.fd = fd, .events = events, .revents = 0};
    while (true) {
        const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
        const int got = ::poll(&one, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
        if (got > 0) return true;
        if (got == 0 || errno != EINTR) return false;
    }
}

// The ranks that a rank of some nodes calls.
std::vector<int> targets_of(const std::vector<std::vector<int>>& nodes, int rank) {
    std::vector<int> targets;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
        const auto me = std::find(nodes[n].begin(), nodes[n].end(), rank);
        if (me == nodes[n].end()) continue;
        const auto place = static_cast<std::size_t>(me - nodes[n].begin());
        for (std::size_t ahead = 1; ahead <= nodes.size() / 2 && targets.size() < most_lines; ahead *= 2) {
            const std::vector<int>& there = nodes[(n + ahead) % nodes.size()];
            targets.push_back(there[place % there.size()]);
        }
    }
    return targets;
}

// Returns why a call that is over has failed, or 0.
int error_of(const descriptor& fd) noexcept {
    int error = 0;
    socklen_t bytes = sizeof error;
    return ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

// Waits for a call that has begun, and calls again where the kernel has no way to the node yet: just after a link has
// come up it remembers that there was none.
bool is_answered(descriptor& call, std::uint32_t address, std::uint16_t port,
                 std::chrono::steady_clock::time_point until) noexcept {
    while (call && ready(call.get(), POLLOUT, until)) {
        const int error = error_of(call);
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

}  // namespace

// Where each rank listens, by rank of the team.
struct lifelines::address_book {
    struct entry {
        job_key key{};
        std::uint16_t port = 0, count = 0;
        std::array<std::uint32_t, most_addresses> addresses{};
    };
    std::vector<entry> entries;
    std::vector<int> members;  // ranks of the bootstrap

    const job_key& key() const noexcept { return entries.front().key; }
};

lifelines::lifelines(team& ranks, const std::vector<std::vector<int>>& nodes, std::chrono::duration<double> silence)
    : silence_(silence) {
    address_book::entry own;
    const descriptor listener = listen_somewhere(own.port);
    if (::getrandom(own.key.data(), sizeof own.key, 0) != sizeof own.key) own.key = {};
    const std::vector<std::uint32_t> addresses = own_addresses();
    if (listener) own.count = static_cast<std::uint16_t>(addresses.size());
    std::copy(addresses.begin(), addresses.end(), own.addresses.begin());
    address_book book{.entries = std::vector<address_book::entry>(at(ranks.size())), .members = ranks.members()};
    ranks.gather_all(&own, book.entries.data(), sizeof own);

    call(book, targets_of(nodes, ranks.rank()), ranks.rank());
    std::array<int, most_lines> called{};  // ranks of the bootstrap
    called.fill(-1);
    for (std::size_t i = 0; i < lines_.size(); ++i) called[i] = lines_[i].rank;
    std::vector<int> all(called.size() * at(ranks.size()));
    ranks.gather_all(called.data(), all.data(), sizeof called);
    for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i] >= 0) counts_.insert({all[i], ranks.members()[i / called.size()]});
    const int me = ranks.members()[at(ranks.rank())];
    answer(listener, book.key(), me, static_cast<int>(std::count(all.begin(), all.end(), me)));
    begin_to_answer();
}

// Calls all of them at once, first at the first address of each.
void lifelines::call(const address_book& book, const std::vector<int>& targets, int me) {
    std::vector<int> open = targets;
    for (std::size_t a = 0; a < most_addresses && !open.empty(); ++a) {
        std::vector<descriptor> calls;
        for (const int t : open) {
            const address_book::entry& e = book.entries[at(t)];
            calls.push_back(a < e.count ? begin_call(e.addresses[a], e.port) : descriptor());
        }
        const auto until = clock::now() + patience;
        std::vector<int> failed;
        for (std::size_t i = 0; i < open.size(); ++i) {
            const greeting hello{book.key(), book.members[at(me)], book.members[at(open[i])]};
            const address_book::entry& e = book.entries[at(open[i])];
            if (calls[i] && is_answered(calls[i], e.addresses[a], e.port, until) &&
                send_all(calls[i], &hello, sizeof hello))
                add(hello.to, std::move(calls[i]), false);
            else failed.push_back(open[i]);
        }
        open = std::move(failed);
    }
}

// Answers who shows the key and means this rank.
void lifelines::answer(const descriptor& listener, const job_key& key, int me, int expected) {
    const auto until = clock::now() + patience;
    while (expected > 0 && listener && ready(listener.get(), POLLIN, until)) {
        descriptor fd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        greeting hello;
        if (!fd || !ready(fd.get(), POLLIN, until) || ::recv(fd.get(), &hello, sizeof hello, 0) != sizeof hello)
            continue;
        if (hello.key != key || hello.to != me || !send_all(fd, &welcome, 1)) continue;
        add(hello.from, std::move(fd), true);
        --expected;
    }
}

void lifelines::add(int rank, descriptor fd, bool sure) {
    const int yes = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    // A link that drops packets is no cut one: the kernel sends a byte again some ten times within 6 s, not five.
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &yes, sizeof yes);
    polled_.push_back({.fd = fd.get(), .events = POLLIN, .revents = 0});
    lines_.push_back({.rank = rank, .fd = std::move(fd), .sure = sure});
}

}  // namespace terrace::detail
