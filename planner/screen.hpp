#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "planner/policy.hpp"
#include "planner/tuning.hpp"

namespace terrace::detail {

/// The candidates of one collective at one size: lanes and chunk of each that can be near the best, and which of them
/// are fast enough to be chosen. Candidates are known by their index in the list.
class screen {
public:
    /// @param list outlives the screen
    /// @param floor baselines: nothing is fast enough that is predicted slower than any of them
    screen(const hierarchy& machine, std::span<const priced_candidate> list, std::vector<std::size_t> floor);

    const hierarchy& machine() const noexcept { return machine_; }
    const priced_candidate& operator[](std::size_t i) const noexcept { return list_[i]; }
    std::span<const std::size_t> floor() const noexcept { return floor_; }
    bool is_floor(std::size_t i) const noexcept;

    /// Tunes for `bytes` all candidates that can be near the best, and the floor in any case.
    void tune_for(std::int64_t bytes);
    /// The candidates that were tuned.
    const std::vector<std::size_t>& tuned() const noexcept { return tuned_; }
    /// Lanes and chunk that tune_for() chose.
    const tuning& how(std::size_t i) const noexcept { return how_[i]; }

    /// Returns the predicted time of a call of another size [s], by how(i) or by given lanes and chunk.
    double time(std::size_t i, double bytes) const { return time(i, how_[i], bytes); }
    double time(std::size_t i, const tuning& how, double bytes) const;
    /// Returns how long it occupies processors [s]: price::effort.
    double effort(std::size_t i, const tuning& how, double bytes) const;
    double effort(std::size_t i, double bytes) const { return effort(i, how_[i], bytes); }

    /// Returns the candidates that are nowhere between two sizes predicted slower than the floor by this factor.
    std::vector<std::size_t> fast_enough(std::int64_t low, std::int64_t high, double by = 1 + policy.rounding) const;

    /// Predicted times of the floor at sizes from one to another one, by size, times a factor [s].
    using floor_times = std::map<double, double>;
    floor_times floor_between(std::int64_t low, std::int64_t high, double by) const;
    /// Returns true if the candidate is nowhere slower, run in this way.
    bool is_fast_enough(std::size_t i, const tuning& how, const floor_times& floor) const;

private:
    void drop_hindered(std::vector<std::size_t>& among, double bytes) const;

    const hierarchy& machine_;
    std::span<const priced_candidate> list_;
    std::vector<std::size_t> floor_;
    std::vector<tuning> how_;
    std::vector<std::size_t> tuned_;
};

}  // namespace terrace::detail
