#include "schedule/ownership.hpp"

#include <numeric>

#include "base/partition.hpp"

namespace terrace::detail {

void append(ownership& map, range part, const std::vector<int>& owners) {
    if (part.empty()) return;
    if (!map.empty() && map.back().part.end == part.begin && map.back().owners == owners)
        map.back().part.end = part.end;
    else map.push_back({part, owners, 0});
}

std::vector<range> weighted(range segment, std::span<const int> weights, std::int64_t quantum) {
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

}  // namespace terrace::detail
