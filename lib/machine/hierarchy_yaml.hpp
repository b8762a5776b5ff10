#pragma once

#include <string>

#include "base/document.hpp"
#include "machine/hierarchy.hpp"
#include "machine/level_yaml.hpp"

namespace terrace::detail {

inline constexpr int max_levels = 16;

/// Reads `levels:` and, where the sizes are left out, `tree:` from a map (a cluster file, or a plan's topology
/// section). `hosts:` at the level whose domains or children are nodes names these. Rates that are left out come from
/// `default_rates` and are marked assumed; a bandwidth may be a list, one for each child; `assumed: [bandwidth,
/// latency]` marks rates that are written out. `names:` are those of a level's domains. `reduction:` and `segment:` may
/// stand beside `levels:`. @throws input_error
/// @param of_nodes true if the ranks of these levels are nodes, the inside of which is described elsewhere
hierarchy read_hierarchy(const document& map, bool of_nodes = false);

/// The parts of it, for a reader that has the shape from elsewhere: the levels, without sizes.
std::vector<level> read_levels(const document& list);
/// Reads `nics:` of the level whose children are nodes, once the shape is known. @throws input_error
void read_level_nics(const std::vector<document>& levels, hierarchy& h, bool of_nodes);
/// A list of names as Slurm writes hosts, or a YAML list of such. @throws input_error for more than max_hosts
std::vector<std::string> read_names(const document& list);

/// The same as YAML lines, units normalised, each line indented by `indent`: reads back equal.
std::string write_hierarchy(const hierarchy& h, int indent);

}  // namespace terrace::detail
