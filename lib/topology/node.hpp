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

/// Puts a rank on every GPU, core, NUMA node or package, by `ranks` (default: GPUs if there are any, else cores).
/// Levels are direct GPU links, PCIe switches, host bridges, last-level caches, NUMA nodes, sockets and the whole node.
/// Each joins at least two ranks or domains; only a node of one rank has a level of size 1. Ranks of a domain are
/// consecutive; apart from that, GPUs keep the order of their driver. Rates come from the wires and the PCIe links
/// between a domain and its sibling; other rates are assumed (default_rates).
/// @throws input_error that names `file` if the node has no part of the wanted kind
node place_ranks(hardware parts, std::optional<rank_unit> ranks, const std::string& file);

/// Finds the levels between bound ranks. Each rank runs on the core of its hardware thread in `threads`.
/// @param order gets the ranks in the order of the levels   @returns nothing if a thread is on no core of the node
std::optional<hierarchy> levels_between(hardware parts, std::span<const int> threads, std::vector<int>& order);

}  // namespace terrace::detail
