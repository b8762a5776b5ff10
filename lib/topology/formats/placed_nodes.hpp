#pragma once

#include <string>
#include <vector>

#include "topology/network.hpp"

namespace terrace::detail {

/// The name of the level that joins what nothing else does.
inline constexpr const char* assumed_level = "cluster";

/// A node, and what it is in, outermost first: zone, spine, leaf. Empty where the file does not say.
struct placed_node {
    text_position where;
    std::string name;
    std::vector<std::string> within;
};

/// Makes switches of places: nodes that agree in the first k places are below one switch of that level. Levels that no
/// node has are left out. Where nothing joins all nodes, a level "cluster" does, with a note.
/// @param levels names of the levels, outermost first, as many as each node has places
/// @throws input_error if there is no node, or a name is none of a host
switch_network network_of(std::string source, std::vector<placed_node> nodes, std::vector<std::string> levels);

}  // namespace terrace::detail
