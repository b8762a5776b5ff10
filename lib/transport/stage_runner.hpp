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

/// A stage that a runner executes as a whole. Addresses are those of element 0 of the vector in the operand's buffer.
/// Peers can access src.
struct stage_call {
    action what = action::stage_allreduce;
    const detail::group* group = nullptr;
    const std::byte* src = nullptr;           ///< data of this rank for its peers
    const std::byte* own = nullptr;           ///< this rank's data for its own result
    std::byte* dst = nullptr;                 ///< result of this rank
    std::span<const call_piece> pieces = {};  ///< places of the vector, instead of own and dst; empty: own and dst
    provider by = provider::messages;         ///< instr::by
    bool sharded = false;                     ///< each rank reduces its own shard
    std::size_t element = 0;                  ///< size of an element [bytes]
    reduce_kernel reduce = nullptr;
    int divisor = 1;
    bool last = false;          ///< true for the chunk's last stage, if no later instruction writes src
    bool streams = false;       ///< the call's buffers do not fit the cache: written data is not read soon
    int channel = 0;            ///< instr::channel
    int lane_slot = 0;          ///< slot of the stage's lane
    std::uint64_t turn = 0;     ///< number of earlier chunks in the slot, equal on all ranks
    std::uint64_t number = 0;   ///< number of the stage's call, equal on all ranks
    std::uint64_t through = 0;  ///< calls up to this number are complete on this rank
    std::uint16_t history = 0;  ///< low bits of call_stamp::history; if those of a peer differ, the stage does not run
    // For runners that use their own kernel instead of `reduce`.
    element_type type = element_type::float32;
    reduce_op op = reduce_op::sum;

    /// Return the begin of a part of the vector, from element 0, and the length of the part [bytes].
    std::size_t offset(range part) const noexcept { return static_cast<std::size_t>(part.begin) * element; }
    std::size_t bytes(range part) const noexcept { return static_cast<std::size_t>(part.count()) * element; }
};

/// Runs whole stages, if that is faster than messages. Optional. Used by one thread at a time. No function throws.
class stage_runner {
public:
    stage_runner() = default;
    stage_runner(const stage_runner&) = delete;
    stage_runner& operator=(const stage_runner&) = delete;
    virtual ~stage_runner() = default;

    /// Returns the stages that the runner can run; constant.
    const capabilities& can() const noexcept { return can_; }

    /// Starts a stage of can() in a free slot, with memory that all members can access. A lane slot runs one stage at a
    /// time, in the order of turns and channels. The call must stay unchanged until poll() returns the slot.
    virtual void start(int slot, const stage_call& call) noexcept = 0;
    /// Progresses stages and appends the slots of those that have completed, each once.
    virtual void poll(std::vector<int>& done) noexcept = 0;
    /// Returns the ranks that the stage in a slot waits for; empty if no stage runs there.
    virtual std::vector<int> missing(int slot) const = 0;
    /// Returns one of these ranks; -1 if there is none. Allocates nothing if stages run in shared memory.
    virtual int first_missing(int slot) const {
        const std::vector<int> all = missing(slot);
        return all.empty() ? -1 : all.front();
    }
    /// Gives up all stages in flight, after a failure. Returns false if their memory must never be freed.
    virtual bool abandon() noexcept { return true; }

    /// Returns the first failure, if any.
    const std::optional<transport_fault>& fault() const noexcept { return fault_; }

protected:
    capabilities can_;
    std::optional<transport_fault> fault_;
};

/// Runs stages in memory that the ranks of a node share: lane slots, which may hold a chunk's vector, and windows.
class node_stage_runner : public stage_runner {
public:
    /// Allocates memory for vectors of `bytes` in all lane slots. @throws transport_error if there is too little
    virtual void take_lanes(std::size_t bytes) = 0;
    /// Returns the memory of a lane slot for a vector of `bytes`, after take_lanes(). Peers can access the memory.
    virtual std::byte* lane_memory(int lane_slot, std::size_t bytes) noexcept = 0;
    /// Returns true if the slot may serve another chunk, even a chunk with its vector elsewhere. A last stage with src
    /// in the slot completes before its peers have read src, and the location of src, which the next stage overwrites.
    virtual bool lane_ready(int lane_slot) noexcept = 0;
    /// Returns the ranks that have not read the slot's memory yet.
    virtual std::vector<int> lane_readers(int lane_slot) const = 0;
    /// Allocates a window: `bytes` > 0 bytes, zeroed, on a cache line, which peers can access. It may outlive the
    /// runner. Collective over all ranks of the communicator. Null if memory cannot be shared. @throws transport_error
    virtual std::shared_ptr<std::byte> allocate_window(std::size_t bytes) = 0;
    /// Returns true if all of the memory lies in one window.
    virtual bool reachable(const void* memory, std::size_t bytes) const noexcept = 0;
    /// Waits briefly for peers if there is nothing else to do; sleeps if that is better than polling. Returns true if
    /// the caller should also yield its core (messages::idle).
    virtual bool wait() noexcept = 0;

    /// Returns the number of unsuccessful polls before wait().
    int spin_limit() const noexcept { return spin_limit_; }

protected:
    int spin_limit_ = 0;
};

}  // namespace terrace::detail
