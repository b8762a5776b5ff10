#include "transport/ports.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include <fmt/format.h>

namespace terrace::detail {

namespace {

descriptor listen_at_port(std::uint32_t address, int port) noexcept {
    descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const auto number = htons(static_cast<std::uint16_t>(port));
    const sockaddr_in at{.sin_family = AF_INET, .sin_port = number, .sin_addr = {.s_addr = address}, .sin_zero = {}};
    if (fd && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0 &&
        ::listen(fd.get(), SOMAXCONN) == 0)
        return fd;
    return {};
}

}  // namespace

descriptor listen_at(std::uint32_t address, port_range ports) noexcept {
    descriptor fd;
    for (int port = ports.first; port <= ports.last && !fd; ++port) fd = listen_at_port(address, port);
    return fd;
}

std::uint16_t port_of(const descriptor& fd) noexcept {
    sockaddr_in own{};
    socklen_t bytes = sizeof own;
    const bool known = fd && ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &bytes) == 0;
    return known ? own.sin_port : 0;
}

descriptor begin_call(std::uint32_t address, std::uint16_t port) noexcept {
    descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const sockaddr_in to{.sin_family = AF_INET, .sin_port = port, .sin_addr = {.s_addr = address}, .sin_zero = {}};
    if (fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS &&
        errno != EINTR)
        return {};
    return fd;
}

int free_ports(std::uint32_t address, port_range ports, int enough) noexcept {
    int found = 0;
    for (; ports.first <= ports.last && found < enough; ++ports.first)
        if (listen_at_port(address, ports.first)) ++found;
    return found;
}

std::string text_of(port_range ports) { return fmt::format("{}-{}", ports.first, ports.last); }

}  // namespace terrace::detail
