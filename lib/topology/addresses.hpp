#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "topology/network.hpp"

namespace terrace::detail {

/// Longest text of an address that parse_address accepts [bytes].
inline constexpr std::size_t max_address = 1000;

/// Place of a node in the network, as Slurm passes it to each task: "spine0.leaf3.node7".
struct node_address {
    std::vector<std::string> levels;  ///< names of the levels, outermost first
    std::vector<std::string> within;  ///< by level: the switch, or list of switches, above the node
};

/// Reads an address, outermost part first, and its pattern, if one follows after a blank. The pattern names the level
/// of each part; "switch", or no pattern, gives the names leaf, spine, core. A node directly below an outer switch has
/// empty parts, which get the name of the next part inside. @throws usage_error with the reason
node_address parse_address(std::string_view text);

/// Makes switches of the addresses of a job's nodes. Nodes are named by their numbers from 0. If no switch joins all
/// nodes, a level "cluster" is added; without addresses it is the only level.
/// @param addresses by node; two, with a null character between them, if the node's ranks differ. Empty: no addresses
/// @param hosts by node, for messages   @throws usage_error that names one or two hosts and the reason
switch_network network_of_addresses(const std::vector<std::string>& addresses, const std::vector<std::string>& hosts);

}  // namespace terrace::detail
