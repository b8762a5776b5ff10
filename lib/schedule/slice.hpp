#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "plan/plan_data.hpp"
#include "schedule/collective_call.hpp"

namespace terrace::detail {

/// The chunks of a vector: `chunks` - 1 of `chunk` elements and a last one of `tail`. The executor runs these chunks
/// and the verifier proves programs of these two counts. For blocks with counts of their own only `chunks` is set, and
/// collective_call::chunk_of returns the chunks.
struct slicing {
    std::int64_t chunk = 0;   ///< [elements]
    std::int64_t chunks = 1;  ///< >= 1, also for an empty vector
    std::int64_t tail = 0;    ///< [elements], in 1 ... chunk; 0 for an empty vector
};

/// Returns the number of elements at whose multiples vectors are cut: a cache line.
std::int64_t quantum_of(std::size_t element_bytes) noexcept;

/// Cuts `count` elements by the rule's chunk size, into as few chunks as possible, of nearly equal counts that are
/// multiples of the quantum. If there are `blocks` blocks of `count` elements, a chunk has the same part of each block.
/// @param most_bytes upper bound of a chunk's size, besides that of the rule [bytes]; 0: no bound
slicing slice(std::int64_t count, std::size_t element_bytes, const rule& r, int blocks = 1,
              std::size_t most_bytes = 0) noexcept;

/// A transport's requirements of the chunks of a call.
struct chunk_limits {
    std::size_t slot_bytes = 0;   ///< largest chunk that stages in lane slots can hold [bytes]; 0: no limit
    bool divides_evenly = false;  ///< NCCL's collectives require chunks of which all ranks have equal parts
};

/// Cuts a call into chunks by its rule. For blocks with counts of their own, no chunk exceeds the rule's size if the
/// remainder in the last chunk (up to one element of each block for each chunk) fits into half a chunk.
/// @param ranks number of ranks of the plan
slicing slice_call(const collective_call& call, const rule& chosen, int ranks, const chunk_limits& limits);

/// Returns true for a rule with stages that a provider runs as its own collectives, in lane slots.
bool uses_lane_slots(const rule& r);
/// Returns the largest number of lanes of a rule, at least 2, so two calls of one lane may be in flight.
int most_lanes(const plan_data& plan) noexcept;
/// Returns the number of lane slots of a rank: enough for two calls in flight with the most lanes of the rules that use
/// slots. There are no more, since calls use the memory of all slots.
int lane_slots(const plan_data& plan) noexcept;
/// Returns the size of a lane slot [bytes]: the longest chunk of the rules that use slots, at least 64 KiB. A rule
/// without chunks counts as its largest call, up to 1 MiB.
std::int64_t slot_bytes(std::span<const rule> rules) noexcept;
/// Returns the size of a lane slot for all rules of a plan, which its ranks use.
std::int64_t slot_bytes(const plan_data& plan) noexcept;

}  // namespace terrace::detail
