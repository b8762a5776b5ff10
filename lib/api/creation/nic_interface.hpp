#pragma once

#include <string>
#include <vector>

#include "machine/nics.hpp"
#include "transport/interfaces.hpp"

namespace terrace::detail {

/// The interfaces that a rank uses, and a warning about this choice, if the user needs one.
struct interface_choice {
    std::vector<std::string> names;
    std::string note{};
};

/// Returns the interface of the rank's NIC if the node has as many interfaces in use as NICs in the plan, if need be
/// with slower interfaces: interfaces and NICs are numbered alike. Otherwise returns all interfaces in use.
/// @param judged the interfaces of the rank's host, in order
interface_choice interfaces_of(const nic_set& nics, int rank, const std::vector<network_interface>& judged);

}  // namespace terrace::detail
