#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "bench/discover/probes.hpp"

namespace terrace::detail::bench {

/// Things that fall into groups: the group of each, numbered from 0 by their lowest thing.
struct grouping {
    std::vector<int> of;
    int count = 0;

    /// Numbers the groups anew, by their lowest member. @param of any number or name by thing
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
    /// Returns n groups of one thing each.
    static grouping each(int n) { return {numbers_below(n), n}; }
    /// Returns one group of n things.
    static grouping one(int n) { return numbered(std::vector<int>(at(n))); }
    /// Groups of the groups of `inner`, as groups of what is in these.
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

/// Ranks that are nearer to one another than to others.
struct near_level {
    grouping groups;
    double distance = 0;    ///< inside a group, where the groups of the level before do not contain both
    double confidence = 0;  ///< the part of what was measured that agrees with it
};

/// Distances between ranks, each measured once: latencies [s], or the times that bytes take [s/B].
class distances {
public:
    explicit distances(std::function<double(int, int)> measure) : measure_(std::move(measure)) {}

    double operator()(int a, int b);
    const std::map<std::pair<int, int>, double>& known() const noexcept { return known_; }

private:
    std::function<double(int, int)> measure_;
    std::map<std::pair<int, int>, double> known_;
};

/// Groups of `things` (ranks) at each distance that stands out, innermost first; the last one, of all, is left out.
/// Asks for distances of log n things to all others, and of the rest to one of each group until theirs is found.
std::vector<near_level> near_levels(distances& distance, const std::vector<int>& things, std::uint64_t seed);

/// The median of distances between things of one group that `inner` has apart. 0: none is known
double distance_between(const distances& distance, const grouping& inner, const grouping& outer,
                        const std::vector<int>& things);

}  // namespace terrace::detail::bench
