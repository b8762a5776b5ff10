#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "machine/hierarchy.hpp"
#include "topology/model.hpp"

namespace terrace::detail {

/// One node with ranks on it: the levels inside it, and its parts with their ranks and nearest NICs filled in.
struct node {
    hierarchy levels;
    hardware parts;
};

/// Puts a rank on every GPU, core, NUMA node or package (GPUs where there are any, else cores, if `ranks` is left out).
/// Levels are those of direct GPU links, PCIe switches, host bridges, last-level caches, NUMA nodes, sockets and the
/// whole node that join at least two ranks or domains; only a node of one rank has a level of size 1. Ranks are
/// numbered so that domains are consecutive, GPUs otherwise as their driver numbers them. Rates come from the wires and
/// the PCIe links between a domain and its sibling; the rest is assumed (default_rates).
/// @throws input_error naming `file` if the node has none of what ranks are to be on
node place_ranks(hardware parts, std::optional<rank_unit> ranks, const std::string& file);

/// Levels among ranks that are bound: each runs on the core of the hardware thread that is given for it.
/// @param order gets the ranks in the order of the levels   @returns nothing where a thread is on no core of the node
std::optional<hierarchy> levels_between(hardware parts, std::span<const int> threads, std::vector<int>& order);

}  // namespace terrace::detail
