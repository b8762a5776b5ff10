#pragma once

#include <vector>

#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// The levels that a stage covers, before it has a mode and an algorithm.
struct piece {
    std::vector<int> levels;  ///< consecutive ones
    int group = 0;            ///< stage::group: ranks of a group, 0 if that differs
    bool split = false;       ///< one of two factors of a level
};
/// All levels of a machine, covered from the innermost to the outermost one.
using shape = std::vector<piece>;

bool has_split(const shape& s);

/// Returns the piece that covers levels first to last as they are.
piece whole_levels(const tree& t, int first, int last);

/// Returns the shapes of a machine: its levels kept or merged with their neighbours, and at most one of them split in
/// two factors. More splits cost more start-ups than they save; parts of a ring are none, so that dimensions of a torus
/// are not split. Those without a split come first, then those with the fewest stages. Of more than
/// planner_policy::most_candidates these are the first ones, and the one with a stage per level.
std::vector<shape> shapes_of(const hierarchy& machine);

}  // namespace terrace::detail
