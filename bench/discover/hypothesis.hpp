#pragma once

#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "base/index.hpp"
#include "bench/discover/switches.hpp"

namespace terrace::detail::bench {

/// The links that each stream crosses.
class stream_paths {
public:
    /// Adds a link to the path of the current stream, which end_stream() completes.
    void add_link(int link) { links_.push_back(link); }
    void end_stream() { ends_.push_back(links_.size()); }

    std::size_t size() const noexcept { return ends_.size(); }
    std::span<const int> operator[](std::size_t stream) const noexcept {
        const std::size_t begin = stream == 0 ? 0 : ends_[stream - 1];
        return {links_.data() + begin, ends_[stream] - begin};
    }

private:
    std::vector<int> links_;         // links of all paths, path after path
    std::vector<std::size_t> ends_;  // end of each path in links_
};

/// Computes max-min fair rates: no stream can have more unless one that has less loses some.
/// @param capacity by link [B/s], positive
/// @returns by stream [B/s]; infinite if the stream crosses no link
std::vector<double> fair_rates(const stream_paths& paths, std::span<const double> capacity);

/// Groups of nodes, nested, innermost first.
using groupings = std::vector<grouping>;

/// The links between groups and the level around them, numbered: up() leaves a group, up() + 1 enters it.
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

/// Nested groups, with links as fast as the highest rates observed on them.
class hypothesis {
public:
    hypothesis(const std::vector<observation>& seen, groupings levels);
    hypothesis(const hypothesis&) = delete;
    hypothesis& operator=(const hypothesis&) = delete;

    /// Returns how far observed rates are from expected ones: misfit() over all streams, off() by stream.
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
