#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "machine/hierarchy.hpp"
#include "topology/node_nics.hpp"

namespace terrace::detail {

/// The hardware threads that a process may run on, one bit each, as the system numbers them.
using affinity = std::array<std::uint64_t, 16>;

/// Returns the affinity of the calling process; all zero if the system does not give it.
affinity own_affinity();

/// Describes this machine, with ranks bound as given. The place of a rank is its first hardware thread. If ranks are
/// not bound, or share threads, their places are unknown, and the node is one level.
/// @param order gets the ranks in the order of the levels   @throws error
job_node this_node(std::span<const affinity> ranks, std::vector<int>& order);

/// Does the same for a node whose parts are known.
job_node node_of_job(hardware parts, std::span<const affinity> ranks, std::vector<int>& order);

/// Writes a node as text, the same text for equal nodes, and reads it back.
std::string write_job_node(const job_node& n);
job_node read_job_node(std::string_view text);

/// The machine of a job.
struct job_machine {
    hierarchy machine;
    std::vector<int> order;   ///< number of the node at each place in the machine
    std::string levels_from;  ///< origin of the levels above nodes, for a person; empty for one node
    std::string doubt;        ///< reason why the addresses are not used; empty if they are used or missing
};

/// Puts a job's nodes side by side (side_by_side), with their links into the network. Addresses give the levels above
/// nodes (network_of_addresses); without usable addresses there is one level, "cluster".
/// @param node_kind by node: its index in `kinds`
/// @param hosts by node; left out of the result if two are equal or one is not a host name
/// @param addresses by node; empty: there are none
/// @throws usage_error for more than 1,048,576 ranks
job_machine machine_of_job(std::span<const job_node> kinds, std::span<const int> node_kind,
                           const std::vector<std::string>& hosts, const std::vector<std::string>& addresses);

}  // namespace terrace::detail
