#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "executor/lane_slot_table.hpp"
#include "executor/program.hpp"
#include "executor/recorder.hpp"
#include "executor/waits.hpp"

namespace terrace::detail {

/// Runs the programs of one communicator. Any number of calls may be in flight, and each pass moves all of them along.
/// Every rank issues the same calls in the same order; they may complete in any order. A call begins when the lane
/// slots that it uses are free and fewer than most_running calls separate it from the oldest one in flight. Issuing and
/// running allocate nothing while few calls are in flight.
class engine {
public:
    /// @param lanes the most that any program has   @param events used by this engine alone
    engine(endpoint& net, int lanes, recorder& events);

    /// Calls that may run at once. Later ones wait.
    static constexpr int most_running = 16;
    /// Returns the request slots of an endpoint for programs of up to so many lanes.
    static int request_slots(int lanes) noexcept { return program::request_slots(lanes) * most_running; }
    /// Reports slots from `request_slots` on to their owner, which must outlive this.
    void serve(slot_owner& others) noexcept { others_ = &others; }

    /// The memory that programs borrow for their calls, and that goes back when a call is done.
    scratch_pool& scratch() noexcept { return scratch_; }
    /// Adds a call. The program must be idle and have its scratch, and must stay where it is until the call is done.
    /// @param stamp what its messages carry   @returns the number of the call, from 1
    std::uint64_t issue(program& p, const call_buffers& b, const call_stamp& stamp = {});
    bool done(std::uint64_t call) const noexcept;
    /// Returns the number of the call that was issued last; 0: none was.
    std::uint64_t issued() const noexcept { return issued_; }
    bool idle() const noexcept { return calls_.empty(); }
    /// Returns true while a running call has lanes to begin. progress() begins them without any other rank's help.
    bool beginning() const noexcept;
    /// Returns the number of the oldest call in flight. The engine must not be idle.
    std::uint64_t oldest() const noexcept { return calls_.front().number; }
    /// Returns the stamp of the oldest call in flight. The engine must not be idle.
    const call_stamp& stamp_of_oldest() const noexcept { return calls_.front().stamp; }
    /// Returns the time since this was first asked of the oldest call in flight. A rank that waits asks all the time.
    std::chrono::duration<double> age() noexcept;

    /// Counts how long this rank waits for others. Call it again and again while calls wait, after polls in vain.
    void follow_waits();
    /// The calls that are complete, and waits.
    call_counts& counts() noexcept { return waits_.counts(); }

    /// Moves all calls along. Returns true if anything happened. Does nothing once the transport has failed.
    bool progress() noexcept;

    /// Adds what the calls in flight are waiting for.
    /// @param callers_rank by rank of the plan: the caller's number of it
    void add_waits(const std::vector<int>& callers_rank, waiting& all) const;

private:
    using clock = std::chrono::steady_clock;
    struct pending_call {
        std::uint64_t number = 0;
        program* run = nullptr;
        call_stamp stamp{};
        int request_block = -1;         // -1: the call has not begun
        clock::time_point since{};      // when age() was first asked
        std::uint64_t first_event = 0;  // events before the call
        std::uint64_t begun = 0;        // ticks of its first event; 0: there is none yet
    };

    bool may_begin(const pending_call& c) const noexcept;
    void begin(pending_call& c) noexcept;
    void finish() noexcept;

    endpoint& net_;
    recorder& events_;
    scratch_pool scratch_;
    slot_owner* others_ = nullptr;          // of the slots behind the blocks
    int block_size_;                        // request slots of one block: as many as a program can use
    std::vector<program*> request_blocks_;  // by block: the program that uses it; null: none
    lane_slot_table lane_slots_;
    std::uint64_t issued_ = 0;         // calls
    std::vector<pending_call> calls_;  // in the order of issue
    wait_counter waits_;
};

}  // namespace terrace::detail
