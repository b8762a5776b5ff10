#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/index.hpp"
#include "schedule/builder.hpp"

namespace terrace::detail {

/// A message between two positions of a group, in so many successive steps.
struct group_message {
    int step = 0, times = 1;  ///< the first of them, and how many
    int from = 0, to = 0;
    double part = 0;  ///< of all that the group divides
};

/// What members of a group do in one direction of a stage, read off the programs of its positions: the algorithm is
/// written nowhere else.
struct group_moves {
    std::vector<group_message> messages = {};  ///< by step
    std::optional<int> startups = {};  ///< where steps do not wait for one another, and are one: what that costs
    /// By position, the part that it adds to others: of each it reads two and writes one. k inputs at once count
    /// (k+1)/3. Where all positions do the same, the first entry is that of all.
    std::vector<double> reduced = {};
    /// Every position sends what position 0 sends, turned around the group; `messages` are those of position 0 alone.
    bool circulant = false;
    bool alone = false;                      ///< no other group of the same domain moves anything
    std::optional<action> handed_over = {};  ///< to a provider, as a collective of its own, without messages

    double reduced_by(int position) const noexcept { return circulant ? reduced.front() : reduced[at(position)]; }
};

/// The programs of a group's positions in one direction of a stage.
struct group_programs {
    /// Writes that of the position which sees the group so; its ranks are positions.
    std::function<void(builder& out, const group& g)> write;
    int startups = 0;        ///< steps that wait for one another; of more steps, none waits for another one
    bool root_adds = false;  ///< what the root gets it adds to what it has
};

/// Reads the programs of all positions; where three positions of a large group show that all do the same, of one.
/// @param large a group of more than so many is
group_moves read_programs(const group& g, const group_programs& programs, int large);

/// Returns true if the group's shards are equal, but for rounding.
bool has_equal_shards(const group& g);

}  // namespace terrace::detail
