#include "planner/tuning.hpp"

#include <algorithm>
#include <cmath>

#include "base/partition.hpp"
#include "machine/devices.hpp"
#include "planner/policy.hpp"

namespace terrace::detail {

namespace {

constexpr std::int64_t page = 4096;

// Returns the preferred lengths of the largest message between nodes of a chunk, or of its largest part in memory, best
// first.
std::vector<std::int64_t> lengths_for(const price& cost) {
    if (!cost.crosses_network()) return {policy.shard_length};
    std::vector<std::int64_t> lengths;
    for (std::int64_t by = 1; by <= policy.message_range; by *= 2) lengths.push_back(policy.message_length * by);
    for (std::int64_t length = policy.message_length / 2; length >= page; length /= 2) lengths.push_back(length);
    return lengths;
}

// Returns the chunk, in whole pages, of which this part has this length.
std::int64_t chunk_for(double part, std::int64_t length) {
    const auto wanted = static_cast<double>(length) / (part > 0 ? part : 1);
    return round_up(std::max<std::int64_t>(std::llround(wanted), 1), page);
}

std::vector<std::int64_t> chunks_for(const price& cost, std::int64_t bytes) {
    std::vector<std::int64_t> chunks;
    const double part = cost.crosses_network() ? cost.network_part() : cost.largest_part();
    for (const std::int64_t length : lengths_for(cost))
        if (const std::int64_t chunk = chunk_for(part, length); chunk < bytes) chunks.push_back(chunk);
    return chunks;
}

// Returns the length from which a vector must be cut into at least two chunks. A rank's part must fit caches, and a
// long message waits for the other end before it leaves; prices model neither. In alltoall, a rank sends to all others
// at once, and must not fill the queues before slow links (docs/measurements/other-collectives.md).
std::int64_t shortest_cut(const price& cost) {
    const std::int64_t shortest = 2 * chunk_for(cost.largest_part(), policy.shard_length);
    if (!cost.crosses_network() || cost.what() != collective::alltoall) return shortest;
    return std::min(shortest, 2 * chunk_for(cost.network_part(), policy.message_length));
}

// Returns the least and the most lanes of a candidate; tuning doubles from one to the next. With unequal shares, data
// of the few owners pass the other ranks one by one.
std::pair<int, int> lanes_of(const hierarchy& machine, const priced_candidate& c) noexcept {
    const bool has_root = row_of(c.cost.what()).has_root();
    // If dimensions of a torus take turns, more lanes, which begin one after another, are always better, except with a
    // root. Prices do not model this.
    const bool takes_turns = std::ranges::any_of(c.what.stages, [](const stage& s) { return s.route_share > 0; });
    if (takes_turns && !has_root) return {policy.many_lanes, policy.many_lanes};
    const bool owned_alike = std::ranges::all_of(c.what.stages, &std::vector<int>::empty, &stage::shares);
    if (!has_root) return {policy.lanes, owned_alike ? policy.lanes : policy.many_lanes};
    return {policy.lanes, through_memory(machine, 0) ? policy.many_lanes : policy.most_lanes};
}

// Returns all lanes and chunks of a candidate, preferred ones first.
std::vector<tuning> tunings(const hierarchy& machine, const priced_candidate& c, std::int64_t bytes) {
    const auto size = static_cast<double>(bytes);
    std::vector<std::pair<std::int64_t, pipeline>> chunked;
    for (const std::int64_t chunk : chunks_for(c.cost, bytes))
        chunked.emplace_back(chunk, c.cost.in_chunks(size, chunk));
    std::vector<tuning> options;
    if (bytes < shortest_cut(c.cost) || chunked.empty()) options.push_back({1, 0, c.cost.time(size, 1, 0)});
    const auto [least, most] = lanes_of(machine, c);
    for (int lanes = least; lanes <= most; lanes *= 2)
        for (const auto& [chunk, p] : chunked) options.push_back({lanes, chunk, p.time(lanes)});
    return options;
}

}  // namespace

tuning tune(const hierarchy& machine, const priced_candidate& c, std::int64_t bytes) {
    const std::vector<tuning> options = tunings(machine, c, bytes);
    const double good = std::ranges::min(options, {}, &tuning::time).time * policy.worth_it;
    return *std::find_if(options.begin(), options.end(), [&](const tuning& t) { return t.time <= good; });
}

rule rule_of(const candidate& c, const tuning& t, std::int64_t bytes, double limit) {
    return {.up_to = bytes,
            .lanes = t.lanes,
            .chunk = t.chunk,
            .at = bytes,
            .predicted = t.time,
            .simulated = t.simulated,
            .limit = limit,
            .stages = c.stages};
}

bool run_alike(const rule& a, const rule& b) noexcept {
    return a.stages == b.stages && a.lanes == b.lanes && a.chunk == b.chunk;
}

}  // namespace terrace::detail
