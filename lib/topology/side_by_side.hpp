#pragma once

#include <span>
#include <vector>

#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// Levels and how domains nest in them, up to nodes: what tree() takes, but for the levels above.
struct inner_levels {
    std::vector<level> levels;
    std::vector<std::vector<int>> children;
};

/// Nodes that differ, side by side. Levels go by name: where a node lacks one that others have, its domains there have
/// one child. Where links differ, each keeps its rate; latency and overhead are the largest. Names of domains, which
/// are those of one node, go. Levels of one name but of different fabrics (shm and bus are both memory) are two, of
/// which the later one has its fabric added to its name.
/// @param kinds different nodes, without levels between nodes   @param node_kind by node, which of `kinds` it is
/// @throws usage_error where two kinds have levels in different orders
inner_levels side_by_side(std::span<const hierarchy> kinds, std::span<const int> node_kind);

}  // namespace terrace::detail
