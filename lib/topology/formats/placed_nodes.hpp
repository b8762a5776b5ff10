#pragma once

#include <string>
#include <vector>

#include "topology/network.hpp"

namespace terrace::detail {

/// Name of the level that is assumed if nothing else joins all nodes.
inline constexpr const char* assumed_level = "cluster";

/// A node and its places, outermost first: zone, spine, leaf. A place is empty if the file does not give it.
struct placed_node {
    text_position where;
    std::string name;
    std::vector<std::string> within;
};

/// Makes switches of places: nodes with the same first k places are below one switch of that level. Levels in which no
/// node has a place are left out. If nothing joins all nodes, a level "cluster" is added, with a note.
/// @param levels names of the levels, outermost first: one for each place of a node
/// @throws input_error if there are no nodes or too many, or if a name is not a host name
switch_network network_of(std::string source, std::vector<placed_node> nodes, std::vector<std::string> levels);

}  // namespace terrace::detail
