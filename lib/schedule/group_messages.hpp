#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/index.hpp"
#include "schedule/builder.hpp"

namespace terrace::detail {

/// A message between two positions of a group, repeated in successive steps.
struct group_message {
    int step = 0, times = 1;  ///< first step, and number of steps
    int from = 0, to = 0;
    double part = 0;  ///< size, relative to the data that the group divides
};

/// The messages and reductions of a group in one direction of a stage. They are read from the programs of its
/// positions: no other code repeats the algorithm.
struct group_moves {
    std::vector<group_message> messages = {};  ///< by step
    std::optional<int> startups = {};  ///< start-ups in total, if no step waits for another; else one for each step
    /// Data that a position reduces, by position: two reads and one write of each element. A reduction of k inputs
    /// counts (k+1)/3. If circulant, the first entry is that of all positions.
    std::vector<double> reduced = {};
    /// All positions send like position 0, counted from their own place; `messages` are those of position 0 alone.
    bool circulant = false;
    bool alone = false;                          ///< no other group of the same domain moves data
    std::optional<action> provider_action = {};  ///< own collective of a provider, without messages

    double reduced_by(int position) const noexcept { return circulant ? reduced.front() : reduced[at(position)]; }
};

/// The programs of a group's positions in one direction of a stage.
struct group_programs {
    /// Writes the program of the position whose view `g` is. Ranks in it are positions.
    std::function<void(builder& out, const group& g)> write;
    int startups = 0;        ///< steps that wait for one another; if there are more, no step waits for another
    bool root_adds = false;  ///< the root adds received data to its own
};

/// Reads the programs of all positions. If three positions of a large group do the same, assumes that all do.
/// @param large size above which a group is large
group_moves read_programs(const group& g, const group_programs& programs, int large);

/// Returns true if the group's shards are equal, except for rounding.
bool has_equal_shards(const group& g);

}  // namespace terrace::detail
