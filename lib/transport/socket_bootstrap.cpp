#include "transport/socket_bootstrap.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "transport/packed.hpp"
#include "transport/store_bootstrap.hpp"

namespace terrace::detail {

namespace {

constexpr std::size_t length_bytes = sizeof(std::uint64_t);
constexpr std::size_t most_strangers = 128;  // callers that have not shown the key: the oldest makes room

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

void socket_bootstrap::put(std::span<const int> ranks, std::string_view key, std::string_view value) {
    values& all = values_[std::string(key)];
    if (ranks.size() == 1) {
        all[rank_] = value;
        return;
    }
    values& got = arrived_[std::string(key)];
    if (ranks.front() != rank_) {
        send(line_to(ranks.front()), key, value);
        if (!wait([&] { return got.contains(ranks.front()); })) time_out({ranks.front()});
        const packed together(got[ranks.front()]);
        for (std::size_t i = 0; i < ranks.size(); ++i) all[ranks[i]] = together.value(static_cast<int>(i));
    } else {
        std::vector<int> missing(ranks.begin() + 1, ranks.end());
        const auto is_whole = [&] {
            std::erase_if(missing, [&](int r) { return got.contains(r); });
            return missing.empty();
        };
        if (!wait(is_whole)) time_out(missing);
        packed together;
        for (const int r : ranks) together.add(r == rank_ ? value : std::string_view(got[r]));
        for (std::size_t i = 0; i < ranks.size(); ++i) all[ranks[i]] = together.value(static_cast<int>(i));
        for (const int r : ranks.subspan(1))
            if (line* to = line_of(r)) send(*to, key, together.bytes());
        const auto is_sent = [&] {
            return std::all_of(lines_.begin(), lines_.end(), [](const line& l) { return !l.fd || l.out.empty(); });
        };
        if (!wait(is_sent)) time_out(std::vector(ranks.begin() + 1, ranks.end()));
    }
    arrived_.erase(arrived_.find(key));
}

std::string socket_bootstrap::get(int rank, std::string_view key) { return values_.find(key)->second.at(rank); }

void socket_bootstrap::forget(std::string_view key) noexcept { values_.erase(values_.find(key)); }

socket_bootstrap::line* socket_bootstrap::line_of(int rank) noexcept {
    const auto found =
        std::find_if(lines_.begin(), lines_.end(), [&](const line& l) { return l.fd && l.peer == rank; });
    return found == lines_.end() ? nullptr : &*found;
}

// Calls the rank unless there is a line to it. The call is answered by its kernel, whatever the rank is doing.
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
    packed message;
    message.add(key);
    message.add(value);
    const std::uint64_t length = message.bytes().size();
    to.out.append(reinterpret_cast<const char*>(&length), length_bytes).append(message.bytes());
}

// Moves what can move, and waits a moment where nothing can.
void socket_bootstrap::move() {
    constexpr int moment = 5;  // [ms]
    std::erase_if(lines_, [](const line& l) { return !l.fd; });
    std::vector<pollfd> polled{{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const line& l : lines_) {
        const int wanted = l.out.empty() ? POLLIN : POLLIN | POLLOUT;
        polled.push_back({.fd = l.fd.get(), .events = static_cast<short>(wanted), .revents = 0});
    }
    if (::poll(polled.data(), polled.size(), moment) <= 0) return;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
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

// Takes whole messages. A caller that shows no key, or another, is not heard.
void socket_bootstrap::take(line& from) {
    if (from.peer < 0) {
        hello said;
        if (from.in.size() < sizeof said) return;
        std::memcpy(&said, from.in.data(), sizeof said);
        if (said.key != places_.front().key || said.from < 0 || at(said.from) >= places_.size()) {
            from.fd = {};
            return;
        }
        from.peer = said.from;
        from.in.erase(0, sizeof said);
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

template <class Done>
bool socket_bootstrap::wait(const Done& done) {
    const auto begin = std::chrono::steady_clock::now();
    while (!done()) {
        look();
        if (timeout_.count() > 0 && std::chrono::steady_clock::now() - begin > timeout_) return false;
        move();
    }
    return true;
}

void socket_bootstrap::time_out(const std::vector<int>& missing) const {
    throw timeout_error(fmt::format(
        "timed out after {:g} s (options::timeout), waiting for rank{} {} (at {}): all ranks of a communicator must "
        "create it, and reach one another",
        timeout_.count(), missing.size() == 1 ? "" : "s", fmt::join(missing, ", "), place_of(missing.front())));
}

std::string socket_bootstrap::place_of(int rank) const {
    const place& there = places_[at(rank)];
    return fmt::format("{}:{}", address_text(there.address), ntohs(there.port));
}

}  // namespace terrace::detail
