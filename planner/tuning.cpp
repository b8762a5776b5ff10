#include "planner/tuning.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/partition.hpp"
#include "planner/devices.hpp"
#include "planner/policy.hpp"

namespace terrace::detail {

namespace {

// Returns the lengths of the largest message between nodes, or of the largest part in memory, that chunks aim at: those
// that are preferred first.
std::span<const std::int64_t> lengths_for(const price& cost) {
    if (cost.crosses_network()) return policy.message_lengths;
    return policy.shard_lengths;
}

std::int64_t chunk_for(const price& cost, std::int64_t length) {
    const auto wanted = static_cast<std::int64_t>(std::llround(static_cast<double>(length) * cost.shrink()));
    return round_up(std::max<std::int64_t>(wanted, 1), policy.chunk_unit);
}

std::vector<std::int64_t> chunks_for(const price& cost, std::int64_t bytes) {
    std::vector<std::int64_t> chunks;
    if (bytes <= policy.largest_uncut) return chunks;
    for (const std::int64_t length : lengths_for(cost))
        if (const std::int64_t chunk = chunk_for(cost, length); chunk < bytes) chunks.push_back(chunk);
    return chunks;
}

// Parts in memory must fit caches. A rank that exchanges blocks sends to all others at once, and must not fill the
// queues before slow links (docs/measurements/other-collectives.md).
bool must_be_cut(const price& cost, std::int64_t bytes) {
    const bool must_be_short = !cost.crosses_network() || cost.what() == collective::alltoall;
    return must_be_short && bytes > policy.largest_uncut && 2 * chunk_for(cost, lengths_for(cost).front()) <= bytes;
}

// True where dimensions of a torus come first in turns, on no way to or from a root. More lanes, which begin one after
// another, only gain there, and no price knows.
bool takes_turns(const priced_candidate& c) noexcept {
    const auto comes_first = [](const stage& s) { return s.route_share > 0; };
    return !row_of(c.cost.what()).has_root() && std::ranges::any_of(c.what.stages, comes_first);
}

}  // namespace

int max_lanes(const hierarchy& machine, const priced_candidate& c) noexcept {
    if (row_of(c.cost.what()).has_root())
        return through_memory(machine, 0) ? policy.lanes_of_root_in_memory : policy.lanes_of_root;
    return takes_turns(c) ? policy.lanes_of_turns : policy.lanes;
}

int untried_lanes(const hierarchy& machine) noexcept {
    return through_memory(machine, 0) ? policy.untried_lanes_in_memory : policy.untried_lanes;
}

std::vector<tuning> tunings(const hierarchy& machine, const priced_candidate& c, std::int64_t bytes) {
    const auto size = static_cast<double>(bytes);
    std::vector<std::pair<std::int64_t, pipeline>> chunked;
    for (const std::int64_t chunk : chunks_for(c.cost, bytes))
        chunked.emplace_back(chunk, c.cost.in_chunks(size, chunk));
    std::vector<tuning> options;
    if (!must_be_cut(c.cost, bytes)) options.push_back({1, 0, c.cost.time(size, 1, 0)});
    const int most = max_lanes(machine, c);
    for (int lanes = takes_turns(c) ? most : 2; lanes <= most; ++lanes)
        for (const auto& [chunk, p] : chunked) options.push_back({lanes, chunk, p.time(lanes)});
    return options;
}

tuning tune(const hierarchy& machine, const priced_candidate& c, std::int64_t bytes) {
    const std::vector<tuning> options = tunings(machine, c, bytes);
    const auto faster = [](const tuning& a, const tuning& b) { return a.time < b.time; };
    const double good = std::min_element(options.begin(), options.end(), faster)->time * policy.worth_a_lane;
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
