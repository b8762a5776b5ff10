#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "machine/hierarchy.hpp"
#include "topology/model.hpp"

namespace terrace::detail {

/// A host of a job, and its number of ranks if that is given.
struct job_host {
    std::string name;
    std::optional<int> slots;
};

/// Reads an MPI host file ("node01", "node01 slots=4", "node01:4" or a host list, one per line, `#` for comments).
/// Slots of a repeated name are added up, and each of its lines without slots counts as one. @throws input_error with
/// line and column
std::vector<job_host> parse_hostfile(std::string_view text, const std::string& file);

/// Returns the hosts of a list "tux[0-3,7]"; a repeated name counts once. @throws usage_error
std::vector<job_host> parse_hostlist(std::string_view list);

/// Returns the part of the machine that the job has: its nodes (found by host_index), and the first `slots` ranks of
/// each, or all if there are fewer. @throws usage_error that names a missing or repeated host, or if the machine's
/// nodes have no names
hierarchy restricted(const hierarchy& machine, const std::vector<job_host>& hosts);
/// Returns the same as a topology, with the types of these nodes.
topology restricted(topology whole, const std::vector<job_host>& hosts);

}  // namespace terrace::detail
