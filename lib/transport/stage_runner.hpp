#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <terrace/types.hpp>

#include "kernels/reduce.hpp"
#include "schedule/lower.hpp"
#include "transport/call_pieces.hpp"
#include "transport/messages.hpp"

namespace terrace::detail {

/// A stage that a runner executes as a whole. Addresses are of element 0 of the vector in the operand's buffer; src is
/// memory that peers reach.
struct stage_call {
    action what = action::stage_allreduce;
    const detail::group* group = nullptr;
    const std::byte* src = nullptr;           ///< what this rank gives
    const std::byte* own = nullptr;           ///< what it gives to itself
    std::byte* dst = nullptr;                 ///< what it gets
    std::span<const call_piece> pieces = {};  ///< what stands there instead of in own and dst; empty: nothing
    provider by = provider::messages;         ///< instr::by
    bool sharded = false;                     ///< each rank reduces its own shard
    std::size_t element = 0;                  ///< bytes of one
    reduce_kernel reduce = nullptr;
    int divisor = 1;
    bool last = false;          ///< of the chunk's stages, and nothing that follows writes src
    bool streams = false;       ///< the call's buffers do not fit the cache: what is written is not read soon
    int channel = 0;            ///< instr::channel
    int lane_slot = 0;          ///< of the lane it runs in
    std::uint64_t turn = 0;     ///< chunks that ran in the slot before this one: equal on all ranks
    std::uint64_t number = 0;   ///< of the call it belongs to: equal on all ranks
    std::uint64_t through = 0;  ///< calls up to this number are complete on this rank
    std::uint16_t history = 0;  ///< of call_stamp::history what fits: where peers' differs the stage does not run
    // Instead of a kernel, where the runner has its own.
    element_type type = element_type::float32;
    reduce_op op = reduce_op::sum;

    /// Returns where a part of the vector begins, from element 0 of it, and how long it is [bytes].
    std::size_t offset(range part) const noexcept { return static_cast<std::size_t>(part.begin) * element; }
    std::size_t bytes(range part) const noexcept { return static_cast<std::size_t>(part.count()) * element; }
};

/// Runs whole stages, where messages would be slower. Optional. Used by one thread at a time. No function throws.
class stage_runner {
public:
    stage_runner() = default;
    stage_runner(const stage_runner&) = delete;
    stage_runner& operator=(const stage_runner&) = delete;
    virtual ~stage_runner() = default;

    /// The stages it runs, constant.
    const capabilities& can() const noexcept { return can_; }

    /// Starts a stage in a free slot: one that can() names, with memory that all members can reach. In one lane slot
    /// one at a time, in the order of turns and channels. The call must stay as it is until poll() returns the slot.
    virtual void start(int slot, const stage_call& call) noexcept = 0;
    /// Moves stages along and appends the slots of those that have completed, each once.
    virtual void poll(std::vector<int>& done) noexcept = 0;
    /// Returns the ranks that the stage in a slot waits for; empty if no stage runs there.
    virtual std::vector<int> missing(int slot) const = 0;
    /// Returns one of them, -1 for none, and allocates nothing where stages run in shared memory.
    virtual int first_missing(int slot) const {
        const std::vector<int> all = missing(slot);
        return all.empty() ? -1 : all.front();
    }
    /// Gives up all stages in flight, after a failure. Returns false if their memory must never be freed.
    virtual bool abandon() noexcept { return true; }

    /// The first failure, if any.
    const std::optional<transport_fault>& fault() const noexcept { return fault_; }

protected:
    capabilities can_;
    std::optional<transport_fault> fault_;
};

/// Runs stages in memory that ranks of a node share: lane slots, in which a chunk's vector may lie, and windows.
class node_stage_runner : public stage_runner {
public:
    /// Takes memory for vectors of `bytes` in all lane slots. @throws transport_error if there is none
    virtual void take_lanes(std::size_t bytes) = 0;
    /// Returns the memory of a lane slot for a vector of `bytes`, which peers reach and take_lanes has taken.
    virtual std::byte* lane_memory(int lane_slot, std::size_t bytes) noexcept = 0;
    /// True if the slot may serve another chunk, whether that has its vector there or not: a last stage that gives from
    /// there completes before its peers have read that, and the place where it lies, which the next stage overwrites.
    virtual bool lane_ready(int lane_slot) noexcept = 0;
    /// Returns the ranks that have not read it yet.
    virtual std::vector<int> lane_readers(int lane_slot) const = 0;
    /// Allocates a window: `bytes` > 0 bytes, zeroed, on a cache line, which peers reach. It may outlive the runner.
    /// Collective over all ranks of the communicator. Null where memory cannot be shared. @throws transport_error
    virtual std::shared_ptr<std::byte> allocate_window(std::size_t bytes) = 0;
    /// True if all of this memory lies in one window.
    virtual bool reachable(const void* memory, std::size_t bytes) const noexcept = 0;
    /// Waits a moment for peers, when nothing else is to do, by sleeping if that is better than polling. True if the
    /// caller should give its core away as well.
    virtual bool wait() noexcept = 0;

    /// Polls in vain before wait().
    int spin_limit() const noexcept { return spin_limit_; }

protected:
    int spin_limit_ = 0;
};

}  // namespace terrace::detail
