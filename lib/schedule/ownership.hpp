#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <vector>

#include "base/partition.hpp"

namespace terrace::detail {

/// A part of the vector and the ranks with its reduced value: one, or after replicate several with all of it.
struct owned {
    range part;
    std::vector<int> owners;
    int route = 0;  ///< route of the part; 0: none
};

inline bool contains(const std::vector<int>& ranks, int rank) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

/// The owned parts of one domain, ascending. They cover the vector, or its part on one route, equal in all domains.
using ownership = std::vector<owned>;

/// Ownership by kind of domain, with ranks counted from a domain's first: similar domains divide the vector alike.
using ownerships = std::map<int, ownership>;

/// Appends a part. Joins it to the last one if they are neighbours and have the same owners.
inline void append(ownership& map, range part, const std::vector<int>& owners) {
    if (part.empty()) return;
    if (!map.empty() && map.back().part.end == part.begin && map.back().owners == owners)
        map.back().part.end = part.end;
    else map.push_back({part, owners, 0});
}

/// Returns successive parts of an interval, in proportion to the weights.
inline std::vector<range> weighted(range segment, std::span<const int> weights, std::int64_t quantum) {
    const int all = std::accumulate(weights.begin(), weights.end(), 0);
    std::vector<range> shards;
    std::int64_t begin = segment.begin;
    int parts = 0;
    for (const int w : weights) {
        parts += w;
        const std::int64_t end = parts == 0 ? begin : partition(segment, all, parts - 1, quantum).end;
        shards.push_back({begin, end});
        begin = end;
    }
    return shards;
}

/// Calls f(interval, owners of each sibling) for every interval of the common refinement of the siblings' ownerships.
template <class F>
void for_each_segment(std::span<const ownership* const> siblings, F&& f) {
    std::vector<std::size_t> piece(siblings.size(), 0);
    std::vector<const std::vector<int>*> owners(siblings.size());
    if (std::ranges::all_of(siblings, [&](const ownership* each) { return each == siblings.front(); })) {
        for (const owned& o : *siblings.front()) {
            std::ranges::fill(owners, &o.owners);
            f(o.part, owners);
        }
        return;
    }
    for (std::int64_t begin = 0; piece.front() < siblings.front()->size();) {
        std::int64_t end = std::numeric_limits<std::int64_t>::max();
        for (std::size_t s = 0; s < siblings.size(); ++s) {
            const owned& o = (*siblings[s])[piece[s]];
            owners[s] = &o.owners;
            begin = std::max(begin, o.part.begin);
            end = std::min(end, o.part.end);
        }
        f(range{begin, end}, owners);
        for (std::size_t s = 0; s < siblings.size(); ++s) piece[s] += (*siblings[s])[piece[s]].part.end == end;
        begin = end;
    }
}

}  // namespace terrace::detail
