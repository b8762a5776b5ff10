#include "schedule/slice.hpp"

#include <algorithm>

#include "base/partition.hpp"
#include "schedule/stage_groups.hpp"

namespace terrace::detail {

namespace {

constexpr std::int64_t cache_line = 64;  // [bytes]

// Returns chunks of one length, and a last one with the remainder.
slicing in_chunks(std::int64_t count, std::int64_t chunk) noexcept {
    const std::int64_t chunks = div_ceil(count, chunk);
    return {.chunk = chunk, .chunks = chunks, .tail = count - (chunks - 1) * chunk};
}

// Returns the upper bound of a chunk's size by the rule and another bound [bytes]; 0: no bound.
std::int64_t most_bytes_of(const rule& r, std::size_t most_bytes) noexcept {
    const auto bound = static_cast<std::int64_t>(most_bytes);
    return r.chunk == 0 || (bound > 0 && bound < r.chunk) ? bound : r.chunk;
}

// Makes no more chunks than the longest block has elements, so no chunk is empty.
slicing slice_own_counts(const collective_call& call, std::int64_t bytes) {
    const std::int64_t all = call.elements(), most = bytes / static_cast<std::int64_t>(call.element);
    if (bytes == 0 || all <= most) return {};
    const auto longest = std::ranges::max(call.blocks, {}, &range::count);
    const std::int64_t left_over =
        2 * static_cast<std::int64_t>(call.blocks.size()) * div_ceil(all, std::max<std::int64_t>(1, most));
    const std::int64_t chunks = div_ceil(all, std::max<std::int64_t>({1, most / 2, most - left_over}));
    return {.chunk = 0, .chunks = std::min(chunks, longest.count()), .tail = 0};
}

template <class Predicate>
int most_lanes_of(const plan_data& plan, Predicate holds) noexcept {
    int lanes = 2;
    for (const auto& [what, rules] : plan.rules)
        for (const rule& r : rules)
            if (holds(r)) lanes = std::max(lanes, r.lanes);
    return lanes;
}

}  // namespace

std::int64_t quantum_of(std::size_t element_bytes) noexcept {
    return std::max<std::int64_t>(1, cache_line / static_cast<std::int64_t>(element_bytes));
}

slicing slice(std::int64_t count, std::size_t element_bytes, const rule& r, int blocks,
              std::size_t most_bytes) noexcept {
    const std::int64_t bytes = most_bytes_of(r, most_bytes);
    if (bytes == 0 || count == 0) return {.chunk = count, .chunks = 1, .tail = count};
    const std::int64_t quantum = quantum_of(element_bytes);
    std::int64_t most = std::max<std::int64_t>(1, bytes / static_cast<std::int64_t>(element_bytes) / blocks);
    if (most > quantum) most = round_down(most, quantum);
    const std::int64_t even = div_ceil(count, div_ceil(count, most));
    return in_chunks(count, std::min(count, round_up(even, quantum)));
}

slicing slice_call(const collective_call& call, const rule& chosen, int ranks, const chunk_limits& limits) {
    const bool by_provider = any_follows_buffers(chosen);
    const std::size_t bound = by_provider ? limits.slot_bytes : 0;
    if (call.counts_given) return slice_own_counts(call, most_bytes_of(chosen, bound));
    const slicing plain = slice(call.count, call.element, chosen, row_of(call.what).blocks ? ranks : 1, bound);
    const std::int64_t even = quantum_of(call.element) * ranks;
    if (!limits.divides_evenly || !by_provider || row_of(call.what).blocks || call.count < even) return plain;
    // Every stage of an even machine divides each chunk but the last evenly. The last one has the remainder.
    return in_chunks(call.count, std::max(even, round_down(plain.chunk, even)));
}

bool uses_lane_slots(const rule& r) { return !all_send(r.stages); }

int most_lanes(const plan_data& plan) noexcept {
    return most_lanes_of(plan, [](const rule&) { return true; });
}

int lane_slots(const plan_data& plan) noexcept { return 2 * most_lanes_of(plan, uses_lane_slots); }

std::int64_t slot_bytes(std::span<const rule> rules) noexcept {
    constexpr std::int64_t least = 1 << 16, uncut = 1 << 20;
    std::int64_t bytes = least;
    for (const rule& r : rules)
        if (uses_lane_slots(r)) bytes = std::max(bytes, r.chunk > 0 ? r.chunk : std::min(r.up_to, uncut));
    return bytes;
}

std::int64_t slot_bytes(const plan_data& plan) noexcept {
    std::int64_t bytes = 0;
    for (const auto& [what, rules] : plan.rules) bytes = std::max(bytes, slot_bytes(rules));
    return bytes;
}

}  // namespace terrace::detail
