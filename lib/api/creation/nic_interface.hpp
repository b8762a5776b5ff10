#pragma once

#include <string>
#include <vector>

#include "machine/nics.hpp"
#include "transport/interfaces.hpp"

namespace terrace::detail {

/// The interfaces that a rank uses, and what its user should know of the choice, if anything.
struct interface_choice {
    std::vector<std::string> names;
    std::string note{};
};

/// Returns the interface of the rank's NIC, where its node has as many interfaces in use as NICs in the plan, or has
/// with the slower ones: interfaces and NICs are numbered alike. Otherwise all interfaces in use.
/// @param judged the interfaces of the rank's host, in order
interface_choice interfaces_of(const nic_set& nics, int rank, const std::vector<network_interface>& judged);

}  // namespace terrace::detail
