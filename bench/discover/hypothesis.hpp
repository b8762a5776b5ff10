#pragma once

#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "base/index.hpp"
#include "bench/discover/switches.hpp"

namespace terrace::detail::bench {

/// By stream, the links that it crosses.
class stream_paths {
public:
    /// Adds a link to the path of the stream that comes next.
    void add_link(int link) { links_.push_back(link); }
    void end_stream() { ends_.push_back(links_.size()); }

    std::size_t size() const noexcept { return ends_.size(); }
    std::span<const int> operator[](std::size_t stream) const noexcept {
        const std::size_t begin = stream == 0 ? 0 : ends_[stream - 1];
        return {links_.data() + begin, ends_[stream] - begin};
    }

private:
    std::vector<int> links_;         // of all paths, one after the other
    std::vector<std::size_t> ends_;  // by stream
};

/// What each stream gets where links are shared fairly: no stream can have more unless one that has less loses some.
/// @param capacity by link [B/s], positive
/// @returns by stream [B/s]; infinite where it crosses no link
std::vector<double> fair_rates(const stream_paths& paths, std::span<const double> capacity);

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
