#pragma once

#include <string>

#include "base/document.hpp"
#include "machine/hierarchy.hpp"
#include "machine/level_yaml.hpp"

namespace terrace::detail {

inline constexpr int max_levels = 16;

/// Reads `levels:`, and `tree:` if the sizes are left out, from a map (a cluster file, or a plan's topology section).
/// `hosts:` names the nodes, at the level whose domains or children are nodes. Rates that are left out come from
/// `default_rates` and are marked assumed. A bandwidth may be a list with one for each child. `assumed: [bandwidth,
/// latency]` marks rates that are given. `names:` are the names of a level's domains. `reduction:` and `segment:` are
/// beside `levels:`. @throws input_error
/// @param of_nodes true if the ranks of these levels are nodes whose inside is described elsewhere
hierarchy read_hierarchy(const document& map, bool of_nodes = false);

/// Reads the levels without sizes, for a reader that gets the shape from elsewhere.
std::vector<level> read_levels(const document& list);
/// Reads `nics:` of the level whose children are nodes, once the shape is known. @throws input_error
void read_level_nics(const std::vector<document>& levels, hierarchy& h, bool of_nodes);
/// Reads a list of names as Slurm writes hosts, or a YAML list of such. @throws input_error for more than max_hosts
std::vector<std::string> read_names(const document& list);

/// Returns a hierarchy as YAML lines with normalised units, each indented by `indent`. They read back equal.
std::string write_hierarchy(const hierarchy& h, int indent);

}  // namespace terrace::detail
