#pragma once

#include <cstdint>
#include <string>

#include <terrace/options.hpp>

#include "base/descriptor.hpp"

namespace terrace::detail {

/// Listens at an address, on the first free port of a range. @returns an empty descriptor if no port is free
descriptor listen_at(std::uint32_t address, port_range ports) noexcept;

/// Returns the port of a socket, in network order; 0: none.
std::uint16_t port_of(const descriptor& fd) noexcept;

/// Starts to connect, without waiting. @param port in network order   @returns no descriptor if that fails at once
descriptor begin_call(std::uint32_t address, std::uint16_t port) noexcept;

/// Returns the number of free ports of a range at an address; stops counting at `enough`.
int free_ports(std::uint32_t address, port_range ports, int enough) noexcept;

/// Returns a range as text: "5000-5099".
std::string text_of(port_range ports);

}  // namespace terrace::detail
