#include "api/call_slicing.hpp"

#include <algorithm>

#include "base/partition.hpp"
#include "schedule/stage_groups.hpp"

namespace terrace::detail {

namespace {

// Cuts `count` elements so that every stage of an even machine divides each chunk evenly. What is left over is a last
// chunk of its own, shorter than a cache line for each rank.
slicing evenly(std::int64_t count, std::int64_t chunk, std::int64_t even) {
    const std::int64_t length = std::max(even, round_down(chunk, even));
    const std::int64_t chunks = div_ceil(count, length);
    return {.chunk = length, .chunks = chunks, .tail = count - (chunks - 1) * length};
}

}  // namespace

slicing slice_call(const call_shape& call, const rule& chosen, int ranks, const chunk_limits& limits) {
    if (!call.counts.empty()) return {};
    const std::size_t element = size_of(call.type);
    const bool by_provider = any_follows_buffers(chosen);
    const slicing plain =
        slice(call.count, element, chosen, has_blocks(call.what) ? ranks : 1, by_provider ? limits.slot_bytes : 0);
    const std::int64_t even = quantum_of(element) * ranks;
    if (!limits.divides_evenly || !by_provider || has_blocks(call.what) || call.count < even) return plain;
    return evenly(call.count, plain.chunk, even);
}

}  // namespace terrace::detail
