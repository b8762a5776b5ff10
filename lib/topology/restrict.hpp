#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "machine/hierarchy.hpp"
#include "topology/model.hpp"

namespace terrace::detail {

/// A host of a job, and how many ranks it is to run where that is said.
struct job_host {
    std::string name;
    std::optional<int> slots;
};

/// Reads an MPI host file ("node01", "node01 slots=4", "node01:4" or a host list, one per line, `#` for comments).
/// Slots of a name that comes again are added up; where a line says none it is one then. @throws input_error with line
/// and column
std::vector<job_host> parse_hostfile(std::string_view text, const std::string& file);

/// The hosts of a list "tux[0-3,7]"; a name that comes again counts once. @throws usage_error
std::vector<job_host> parse_hostlist(std::string_view list);

/// The part of the machine that the job has: its nodes, and of each the first `slots` ranks if that is fewer than the
/// node has; host_index says which name means which. @throws usage_error naming a host that the machine does not have
/// or that comes twice, or if the machine's nodes have no names
hierarchy restricted(const hierarchy& machine, const std::vector<job_host>& hosts);
/// The same, with what is known of these nodes.
topology restricted(topology whole, const std::vector<job_host>& hosts);

}  // namespace terrace::detail
