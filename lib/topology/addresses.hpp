#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "topology/network.hpp"

namespace terrace::detail {

/// The longest text of an address that is read [bytes].
inline constexpr std::size_t max_address = 1000;

/// The place of a node in the network, as Slurm tells it to each task: "spine0.leaf3.node7".
struct node_address {
    std::vector<std::string> levels;  ///< names, outermost first
    std::vector<std::string> within;  ///< by level, the switch (or a list of several) that the node is below
};

/// Reads an address, outermost first, and, after a blank, its pattern: what each part is. Levels are called as there,
/// but for "switch", which as no pattern means leaf, spine, core. A node that hangs directly on an outer switch has
/// empty parts; the part further in stands for those. @throws usage_error saying what is wrong
node_address parse_address(std::string_view text);

/// Makes switches of the addresses of a job's nodes, which are named by their numbers from 0 on. Where nothing joins
/// all, a level "cluster" does; it is the only one where no node has an address.
/// @param addresses by node, of ranks that differ both, with a null character between them; or none at all
/// @param hosts by node, for messages   @throws usage_error that names one or two hosts and what they have
switch_network network_of_addresses(const std::vector<std::string>& addresses, const std::vector<std::string>& hosts);

}  // namespace terrace::detail
