#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "machine/hierarchy.hpp"
#include "topology/formats.hpp"
#include "topology/node.hpp"

namespace terrace::detail {

/// Switches as levels, and notes for a person: units that were assumed, levels that look wrong.
struct slurm_network {
    hierarchy machine;
    std::vector<std::string> notes;
};

/// Reads the switches of Slurm's topology.conf (topology/tree), or what `scontrol show topology` prints: `SwitchName=`
/// with `Nodes=` or `Switches=`, and `LinkSpeed=`. The ranks of the result are nodes, with their names; the levels are
/// leaf, spine, core, without those that join nothing. If `hosts` is not empty (found as by host_index), trees of
/// switches without any of them are left out; the rest must be one tree.
///
/// LinkSpeed is the rate of one link from the switch downwards, of which a node has as many as NICs. Slurm gives it no
/// unit: `unit` holds for the whole file; without it, Gbit/s if the smallest number of the file is below 1000, else
/// Mbit/s, marked assumed, with a note. Where LinkSpeed is missing, a node's link is `nodes` (or the default rate of
/// InfiniBand), and switches are assumed not to block.
/// @throws input_error with line and column, usage_error naming a host that is missing
slurm_network read_slurm_topology(const std::filesystem::path& file, const std::optional<uplink>& nodes,
                                  const std::vector<std::string>& hosts, std::optional<link_unit> unit = {});

}  // namespace terrace::detail
