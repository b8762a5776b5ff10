#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "executor/stream_transport.hpp"
#include "schedule/schedule.hpp"
#include "schedule/slice.hpp"

namespace terrace {

/// A schedule as queues take it: step by step what comes before the step's messages, these as one group, what they
/// bring, and what comes after. Within a queue that order is all the order there is, so dependencies need no more.
struct queued {
    enum class kind : std::uint8_t { local, open, message, close, stage, received };
    struct entry {
        kind what;
        std::uint32_t instruction = 0;
        std::size_t staging = 0;  ///< elements into the lane's staging memory, of recv_reduce
    };

    /// @param over_mpi by stage: in words, if it goes over MPI; else empty
    queued(schedule s, const std::vector<std::string>& over_mpi);

    schedule code;
    std::vector<entry> entries;
    std::vector<std::size_t> first;  ///< by slot of the pipeline, up then down: its first entry; and the end
    std::int64_t staging = 0;        ///< elements
    std::int64_t hosted = 0;         ///< elements of messages of one step over MPI
};

/// One call's shape in the enqueuing form: made once, put into queues many times.
///
/// Chunk k goes through queue k mod lanes, one slot of the pipeline after the other: stages up, then down. Over all
/// queues the order is by waves: in each, every chunk under way takes one slot, older ones first, and one more begins
/// if there is a lane for it. It depends on nothing but the numbers of chunks, lanes and stages, so that all ranks, and
/// with them all communicators below, have the same.
class stream_program {
public:
    struct shape {
        element_type type = element_type::float32;
        reduce_op op = reduce_op::sum;
        int divisor = 1;  ///< of what has been reduced over all ranks
        slicing chunks;
        int lanes = 1;
        std::vector<std::string> over_mpi;  ///< by stage of the plan's rule, as in `queued`

        int stages() const noexcept { return static_cast<int>(over_mpi.size()); }
    };

    /// @param full, tail lowered schedules of a chunk and of the last chunk (only `tail` is used if there is one chunk)
    stream_program(schedule full, schedule tail, const shape& s, stream_transport& net);

    int lanes() const noexcept { return shape_.lanes; }
    /// Puts a call into the transport's queues, between its begin() and end().
    void enqueue(const void* send, void* recv) noexcept;

private:
    void run_slot(std::int64_t chunk, int slot) noexcept;
    void run(const queued& q, const queued::entry& e, std::int64_t chunk, int queue) noexcept;
    void run_message(const queued& q, const queued::entry& e, int queue) noexcept;
    void run_stage(const queued& q, const instr& i, std::int64_t chunk, int queue) noexcept;
    std::byte* address(const operand& o, int queue) const noexcept;
    std::byte* staging(const queued::entry& e, int queue) const noexcept;
    void open(const place& where, int queue) noexcept;
    std::size_t bytes_of(range part) const noexcept { return static_cast<std::size_t>(part.count()) * element_; }

    stream_transport& net_;
    shape shape_;
    std::size_t element_;
    queued full_, tail_;
    std::size_t lane_bytes_, scratch_bytes_;  // of a lane's memory, and of the scratch that it begins with
    std::size_t host_bytes_;                  // of a lane's part of the host's
    std::shared_ptr<std::byte> memory_, host_;
    std::vector<const void*> inputs_;
    std::vector<std::int64_t> begun_;  // by lane: the wave in which its chunk began
    std::byte* base_[2] = {};          // of send and recv: the chunk's
    std::byte* send_ = nullptr;
    std::byte* recv_ = nullptr;
};

}  // namespace terrace
