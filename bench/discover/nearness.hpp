#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "bench/discover/probes.hpp"

namespace terrace::detail::bench {

/// Items in groups: `of` is the group of each item. Groups are numbered from 0, by their lowest item.
struct grouping {
    std::vector<int> of;
    int count = 0;

    /// Renumbers groups by their lowest item. @param of any number or name of a group, by item
    template <class Key = int>
    static grouping numbered(const std::vector<Key>& of) {
        grouping found;
        std::map<Key, int> number;
        for (const Key& g : of) {
            const auto [known, is_new] = number.try_emplace(g, found.count);
            found.count += is_new;
            found.of.push_back(known->second);
        }
        return found;
    }
    /// Returns n groups of one item each.
    static grouping each(int n) { return {numbers_below(n), n}; }
    /// Returns one group of n items.
    static grouping one(int n) { return numbered(std::vector<int>(at(n))); }
    /// Converts groups of the groups of `inner` into groups of the items of `inner`.
    grouping of_things(const grouping& inner) const {
        std::vector<int> all;
        for (const int g : inner.of) all.push_back(of[at(g)]);
        return numbered(all);
    }
    std::vector<std::vector<int>> members() const {
        std::vector<std::vector<int>> all(at(count));
        for (std::size_t i = 0; i < of.size(); ++i) all[at(of[i])].push_back(static_cast<int>(i));
        return all;
    }
    friend bool operator==(const grouping&, const grouping&) = default;
};

/// Groups of ranks that are nearer to one another than to other ranks.
struct near_level {
    grouping groups;
    double distance = 0;    ///< median inside a group, between different groups of the previous level
    double confidence = 0;  ///< fraction of measured distances that agree with the groups
};

/// Distances between ranks, each measured once: latencies [s], or times per byte [s/B].
class distances {
public:
    explicit distances(std::function<double(int, int)> measure) : measure_(std::move(measure)) {}

    double operator()(int a, int b);
    const std::map<std::pair<int, int>, double>& known() const noexcept { return known_; }

private:
    std::function<double(int, int)> measure_;
    std::map<std::pair<int, int>, double> known_;
};

/// Returns levels of groups of `things` (ranks), innermost first, without the group of all. Measures all distances
/// of about log n ranks; of the others those to one rank per group, until their group is found.
std::vector<near_level> near_levels(distances& distance, const std::vector<int>& things, std::uint64_t seed);

/// Returns the median of known distances inside groups of `outer`, between groups of `inner`; 0 if none is known.
double distance_between(const distances& distance, const grouping& inner, const grouping& outer,
                        const std::vector<int>& things);

}  // namespace terrace::detail::bench
