#pragma once

#include <cstdint>
#include <string>

#include <terrace/options.hpp>

#include "base/descriptor.hpp"

namespace terrace::detail {

/// Listens at an address, at the first free port of a range. @returns none if there is none
descriptor listen_at(std::uint32_t address, port_range ports) noexcept;

/// Returns the port of a socket, in network order; 0: none.
std::uint16_t port_of(const descriptor& fd) noexcept;

/// Begins to connect, without waiting. @param port in network order   @returns none where that fails at once
descriptor begin_call(std::uint32_t address, std::uint16_t port) noexcept;

/// Returns how many ports of a range are free at an address, and does not count beyond `enough`.
int free_ports(std::uint32_t address, port_range ports, int enough) noexcept;

/// "5000-5099"
std::string text_of(port_range ports);

}  // namespace terrace::detail
