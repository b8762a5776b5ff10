#include "transport/socket_bootstrap.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "transport/packed.hpp"
#include "transport/store_bootstrap.hpp"

namespace terrace::detail {

namespace {

constexpr std::size_t length_bytes = sizeof(std::uint64_t);
constexpr std::size_t most_strangers = 128;  // connections without the key: the oldest is closed for the next

}  // namespace

socket_bootstrap::socket_bootstrap(team& ranks, const std::vector<network_interface>& at_, port_range ports)
    : bootstrap(this_node()), rank_(ranks.rank()), places_(at(ranks.size())) {
    const std::uint32_t address = used(at_).front().address;
    listener_ = listen_at(address, ports);
    const place own{{random_number(), random_number()}, address, port_of(listener_)};
    ranks.gather_all(&own, places_.data(), sizeof own);
    for (std::size_t r = 0; r < places_.size(); ++r)
        if (places_[r].port == 0)
            throw transport_error("bootstrap", "bind", EADDRINUSE,
                                  fmt::format("rank {} cannot listen at {}{}", r, address_text(places_[r].address),
                                              ports.first > 0 ? ", at no port of TERRACE_PORTS" : ""));
}

std::vector<std::string> socket_bootstrap::exchange(std::span<const int> ranks, std::string_view key,
                                                    std::string_view value, const wait_hook& look) {
    if (ranks.size() == 1) return {std::string(value)};
    lock held(lines_lock_);
    const auto at_key = arrived_.try_emplace(std::string(key)).first;
    const at_end forget([&] { arrived_.erase(at_key); });
    std::map<int, std::string>& got = at_key->second;
    const auto has_come = [&](int r) { return got.contains(r); };
    const int first = ranks.front();
    if (first != rank_) {
        send(line_to(first), key, value);
        wait_for({first}, held, look, has_come);
        return packed(got[first]).values();
    }
    const std::vector<int> others(ranks.begin() + 1, ranks.end());
    wait_for(others, held, look, has_come);
    packed all;
    for (const int r : ranks) all.add(r == rank_ ? value : std::string_view(got[r]));
    for (const int r : others)
        if (line* to = line_of(r)) send(*to, key, all.bytes());
    wait_for(others, held, look, [&](int r) {
        const line* to = line_of(r);
        return to == nullptr || to->out.empty();
    });
    return all.values();
}

socket_bootstrap::line* socket_bootstrap::line_of(int rank) noexcept {
    const auto found = std::ranges::find_if(lines_, [&](const line& l) { return l.fd && l.peer == rank; });
    return found == lines_.end() ? nullptr : &*found;
}

// Connects to the rank, unless there is a connection. The rank's kernel accepts, whatever the rank is doing.
socket_bootstrap::line& socket_bootstrap::line_to(int rank) {
    if (line* known = line_of(rank)) return *known;
    const place& there = places_[at(rank)];
    line& made = lines_.emplace_back();
    made.fd = begin_call(there.address, there.port);
    made.peer = rank;
    const hello own{places_.front().key, rank_};
    made.out.assign(reinterpret_cast<const char*>(&own), sizeof own);
    return made;
}

void socket_bootstrap::send(line& to, std::string_view key, std::string_view value) {
    const packed message{key, value};
    const std::uint64_t length = message.bytes().size();
    to.out.append(reinterpret_cast<const char*>(&length), length_bytes).append(message.bytes());
}

// Progresses all connections for all threads; waits briefly if none is ready. Other threads may add lines meanwhile.
void socket_bootstrap::move(lock& held) {
    constexpr int moment = 5;  // [ms]
    moving_ = true;
    const at_end others_may([&] {
        moving_ = false;
        moved_.notify_all();
    });
    std::erase_if(lines_, [](const line& l) { return !l.fd; });
    std::vector<pollfd> polled{{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const line& l : lines_) {
        const int wanted = l.out.empty() ? POLLIN : POLLIN | POLLOUT;
        polled.push_back({.fd = l.fd.get(), .events = static_cast<short>(wanted), .revents = 0});
    }
    held.unlock();
    const int ready = ::poll(polled.data(), polled.size(), moment);
    held.lock();
    if (ready <= 0) return;
    for (std::size_t i = 0; i + 1 < polled.size(); ++i) {
        if ((polled[i + 1].revents & POLLOUT) != 0 && !write(lines_[i])) lines_[i].fd = {};
        if (lines_[i].fd && (polled[i + 1].revents & ~POLLOUT) != 0) read(lines_[i]);
    }
    if (polled.front().revents == 0) return;
    const auto is_stranger = [](const line& l) { return l.peer < 0; };
    if (static_cast<std::size_t>(std::count_if(lines_.begin(), lines_.end(), is_stranger)) == most_strangers)
        lines_.erase(std::find_if(lines_.begin(), lines_.end(), is_stranger));
    line& next = lines_.emplace_back();
    next.fd = descriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const int yes = 1;
    if (next.fd) ::setsockopt(next.fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

bool socket_bootstrap::write(line& to) noexcept {
    const ssize_t sent = uninterrupted(
        [&] { return ::send(to.fd.get(), to.out.data() + to.sent, to.out.size() - to.sent, MSG_NOSIGNAL); });
    if (sent > 0) to.sent += static_cast<std::size_t>(sent);
    if (to.sent == to.out.size()) to.out.clear(), to.sent = 0;
    return sent >= 0 || errno == EAGAIN;
}

void socket_bootstrap::read(line& from) {
    std::array<char, 1 << 16> bytes;
    const ssize_t got = uninterrupted([&] { return ::recv(from.fd.get(), bytes.data(), bytes.size(), 0); });
    if (got < 0 && errno == EAGAIN) return;
    if (got > 0) from.in.append(bytes.data(), static_cast<std::size_t>(got));
    else from.fd = {};
    take(from);
}

// Takes complete messages from a line. Closes the line if its hello has another key or no valid rank.
void socket_bootstrap::take(line& from) {
    if (from.peer < 0) {
        hello greeting;
        if (from.in.size() < sizeof greeting) return;
        std::memcpy(&greeting, from.in.data(), sizeof greeting);
        if (greeting.key != places_.front().key || greeting.from < 0 || at(greeting.from) >= places_.size()) {
            from.fd = {};
            return;
        }
        from.peer = greeting.from;
        from.in.erase(0, sizeof greeting);
    }
    while (from.in.size() >= length_bytes) {
        std::uint64_t length = 0;
        std::memcpy(&length, from.in.data(), length_bytes);
        if (from.in.size() - length_bytes < length) return;
        const packed message(std::string_view(from.in).substr(length_bytes, length));
        if (message.size() == 2) arrived_[std::string(message.value(0))][from.peer] = message.value(1);
        from.in.erase(0, length_bytes + length);
    }
}

// Waits until all of these ranks are done.
template <class Done>
void socket_bootstrap::wait_for(std::vector<int> ranks, lock& held, const wait_hook& look, const Done& is_done) {
    const auto begin = std::chrono::steady_clock::now();
    while (true) {
        std::erase_if(ranks, is_done);
        if (ranks.empty()) return;
        if (timeout_.count() > 0 && std::chrono::steady_clock::now() - begin > timeout_)
            throw timeout_error(fmt::format(
                "timed out after {:g} s (options::timeout), waiting for {} (at {}): all ranks of a communicator must "
                "create it, and reach one another",
                timeout_.count(), ranks_named(ranks), place_of(ranks.front())));
        call_unlocked(held, look);
        if (!moving_) move(held);
        else moved_.wait(held);
    }
}

std::string socket_bootstrap::place_of(int rank) const {
    const place& there = places_[at(rank)];
    return fmt::format("{}:{}", address_text(there.address), ntohs(there.port));
}

}  // namespace terrace::detail
