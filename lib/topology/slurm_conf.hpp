#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/hierarchy.hpp"
#include "topology/node.hpp"

namespace terrace {

/// Reads the switches of Slurm's topology.conf (topology/tree), or what `scontrol show topology` prints: `SwitchName=`
/// with `Nodes=` or `Switches=`, and `LinkSpeed=`. The ranks of the result are nodes, with their names; the levels are
/// leaf, spine, core, those left out that join nothing. Trees of switches without any of `hosts` (found as by
/// host_index) are left out too, unless that is empty; what is left must be one tree.
///
/// LinkSpeed is taken as the rate of one link from the switch downwards, of which a node has as many as NICs. Slurm
/// gives it no unit; a bare number is read as Gbit/s below 1000 and as Mbit/s from there on, and marked assumed. Where
/// it is missing, a node's link is `nodes` (or the default rate of InfiniBand), and switches are assumed not to block.
/// @throws input_error with line and column, usage_error naming a host that is not there
hierarchy read_slurm_topology(const std::filesystem::path& file, const std::optional<uplink>& nodes,
                              const std::vector<std::string>& hosts);

}  // namespace terrace
