#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "plan/plan_data.hpp"
#include "schedule/collective_call.hpp"

namespace terrace::detail {

/// How a vector passes through the stages: `chunks` - 1 pieces of `chunk` elements and a last one of `tail`. The
/// executor runs these pieces and the verifier proves programs of these two counts. Blocks of counts of their own have
/// neither: collective_call::chunk_of says what a chunk is.
struct slicing {
    std::int64_t chunk = 0;   ///< [elements]
    std::int64_t chunks = 1;  ///< >= 1, also of an empty vector
    std::int64_t tail = 0;    ///< [elements], in 1 ... chunk; 0 for an empty vector
};

/// The elements at whose multiples vectors are cut: a cache line.
std::int64_t quantum_of(std::size_t element_bytes) noexcept;

/// `count` elements by the rule's chunk size: as many chunks as that takes, of nearly equal counts that are multiples
/// of the quantum. Of `blocks` blocks of `count` elements each chunk takes the same part of every one.
/// @param most_bytes no chunk is longer than this, whatever the rule says; 0: no bound
slicing slice(std::int64_t count, std::size_t element_bytes, const rule& r, int blocks = 1,
              std::size_t most_bytes = 0) noexcept;

/// A transport's requirements of the chunks of a call.
struct chunk_limits {
    std::size_t slot_bytes = 0;   ///< the most bytes of a chunk that stages in lane slots can hold; 0: no limit
    bool divides_evenly = false;  ///< collectives of NCCL run only chunks that all ranks have equal parts of
};

/// Cuts a call into chunks by its rule. Of blocks of counts of their own no chunk is longer than those of equal blocks,
/// where what is left over fits into half a chunk: up to an element of each block for each chunk.
/// @param ranks of the plan
slicing slice_call(const collective_call& call, const rule& chosen, int ranks, const chunk_limits& limits);

/// Returns true for a rule with stages that a provider runs as collectives of its own, in lane slots.
bool uses_lane_slots(const rule& r);
/// Returns the most lanes of any rule; 2 at least, so that two calls of one lane may be in flight.
int most_lanes(const plan_data& plan) noexcept;
/// Slots that a rank has: those of two calls in flight with the most lanes of any rule that uses slots. No more, since
/// a call takes memory in all of them.
int lane_slots(const plan_data& plan) noexcept;
/// Bytes of a slot that the transport's own stages take: the longest chunk of any of the rules that have such, or 1 MiB
/// of one that is not cut; at least 64 KiB.
std::int64_t slot_bytes(std::span<const rule> rules) noexcept;
/// Returns that of all rules of a plan, which is what its ranks have.
std::int64_t slot_bytes(const plan_data& plan) noexcept;

}  // namespace terrace::detail
