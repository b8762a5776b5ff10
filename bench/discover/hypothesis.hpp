#pragma once

#include <numeric>
#include <span>
#include <vector>

#include "base/index.hpp"
#include "bench/discover/fair_rates.hpp"
#include "bench/discover/switches.hpp"

namespace terrace::detail::bench {

/// Groups of nodes, nested, innermost first.
using groupings = std::vector<grouping>;

/// Links from groups to what is around them, and back: two for each group of each level.
class links_of {
public:
    explicit links_of(const groupings& levels);

    int count() const noexcept { return count_; }
    int up(std::size_t level, int group) const { return first_[level] + 2 * group; }
    stream_paths paths(std::span<const stream> all) const;

private:
    const groupings& levels_;
    std::vector<int> first_;
    int count_ = 0;
};

/// Nested groups, and links of the rates that they were seen to carry.
class hypothesis {
public:
    hypothesis(const std::vector<observation>& seen, groupings levels);
    hypothesis(const hypothesis&) = delete;
    hypothesis& operator=(const hypothesis&) = delete;

    /// How far what was seen is from what is expected, by stream, and all of it.
    double misfit() const { return std::accumulate(off_.begin(), off_.end(), 0.0); }
    const std::vector<double>& off() const noexcept { return off_; }
    const std::vector<std::vector<double>>& rates() const noexcept { return expected_; }
    double capacity(std::size_t level, int group) const { return capacity_[at(links_.up(level, group))]; }

private:
    groupings levels_;
    links_of links_;
    std::vector<double> capacity_;
    std::vector<std::vector<double>> expected_;
    std::vector<double> off_;
};

}  // namespace terrace::detail::bench
