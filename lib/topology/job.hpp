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

/// Returns that of the calling process; all zero if the system does not tell.
affinity own_affinity();

/// Describes this machine, with ranks bound as given. Each rank is where its first hardware thread is; where ranks are
/// not bound, or to the same threads, nothing is known of their places, and the node is one level.
/// @param order gets the ranks in the order of the levels   @throws error
job_node this_node(std::span<const affinity> ranks, std::vector<int>& order);

/// The same for known parts.
job_node node_of_job(hardware parts, std::span<const affinity> ranks, std::vector<int>& order);

/// As text, the same for equal nodes, and back.
std::string write_job_node(const job_node& n);
job_node read_job_node(std::string_view text);

/// The machine of a job.
struct job_machine {
    hierarchy machine;
    std::vector<int> order;   ///< by place of a node in the machine, which node it is
    std::string levels_from;  ///< what the levels above nodes come from, for a person; empty for one node
    std::string doubt;        ///< why the addresses are not used; empty where they are, or there are none
};

/// Puts a job's nodes side by side (side_by_side), with what each has towards the network. They are connected as their
/// addresses say (network_of_addresses), else by one level, "cluster".
/// @param node_kind by node, which of `kinds` it is
/// @param hosts by node; left out of the result where two are equal or one is none
/// @param addresses by node; or none at all
/// @throws usage_error for more than 1,048,576 ranks
job_machine machine_of_job(std::span<const job_node> kinds, std::span<const int> node_kind,
                           const std::vector<std::string>& hosts, const std::vector<std::string>& addresses);

}  // namespace terrace::detail
