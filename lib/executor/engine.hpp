#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "executor/program.hpp"
#include "executor/recorder.hpp"
#include "executor/waits.hpp"

namespace terrace::detail {

/// Lane slots of the transport's shared memory, in which lanes of programs run.
class lane_slot_table {
public:
    explicit lane_slot_table(int slots) : turns_(at(slots)), taken_(at(slots)) {}

    /// Assigns slots to the lanes of a program for its next call. Every rank assigns the same slots to the same call,
    /// whether or not the call has work for them on that rank.
    void assign(program& p) {
        for (int l = 0; l < p.placed_lanes(); ++l) {
            std::uint64_t& turn = turns_[at(next_)];
            p.place_lane(l, {next_, turn});
            turn += static_cast<std::uint64_t>(p.chunks_of(l));
            next_ = wrap(next_ + 1, static_cast<int>(turns_.size()));
        }
    }
    /// Returns true if no running program occupies the program's slots.
    bool are_free(const program& p) const noexcept {
        for (int l = 0; l < p.placed_lanes(); ++l)
            if (taken_[at(p.slot_of(l).number)]) return false;
        return true;
    }
    /// Marks the slots of a program as occupied, or as free.
    void occupy(const program& p, bool occupied) noexcept {
        for (int l = 0; l < p.placed_lanes(); ++l) taken_[at(p.slot_of(l).number)] = occupied;
    }

private:
    std::vector<std::uint64_t> turns_;  // by slot: chunks issued so far, equal on all ranks
    std::vector<bool> taken_;           // by slot
    int next_ = 0;                      // slot for the next lane that needs one
};

/// Runs the programs of one communicator. Any number of calls may be in flight, and each pass progresses all of them.
/// Every rank issues the same calls in the same order; calls may complete in any order. A call begins when its lane
/// slots are free and its number exceeds that of the oldest call in flight by less than most_running. Issuing and
/// running allocate nothing while few calls are in flight.
class engine {
public:
    /// @param lanes maximum of any program   @param events used by this engine alone
    engine(endpoint& net, int lanes, recorder& events);

    /// Maximum number of calls that run at once. Later calls wait.
    static constexpr int most_running = 16;
    /// Returns the number of request slots that an endpoint needs for programs of up to `lanes` lanes.
    static int request_slots(int lanes) noexcept { return program::request_slots(lanes) * most_running; }
    /// Sets the function that receives completed slots from `request_slots` on, which programs do not use.
    void serve(std::function<void(int slot)> others) { others_ = std::move(others); }

    /// Returns the memory that programs borrow for their calls. A program gives its memory back when its call is done.
    scratch_pool& scratch() noexcept { return scratch_; }
    /// Adds a call. The program must be idle and have its scratch, and must not move until the call is done.
    /// @param stamp carried by the messages of the call   @returns the number of the call, from 1
    std::uint64_t issue(program& p, const call_buffers& b, const call_stamp& stamp = {});
    bool done(std::uint64_t call) const noexcept {
        return std::ranges::find(calls_, call, &pending_call::number) == calls_.end();
    }
    /// Returns the number of the call that was issued last; 0 if there is none.
    std::uint64_t issued() const noexcept { return issued_; }
    bool idle() const noexcept { return calls_.empty(); }
    /// Returns true while a running call has lanes to start. progress() starts them without help from other ranks.
    bool beginning() const noexcept {
        return std::ranges::any_of(calls_, [](const auto& c) { return c.request_block >= 0 && c.run->beginning(); });
    }
    /// Returns the stamp of the oldest call in flight. The engine must not be idle.
    const call_stamp& stamp_of_oldest() const noexcept { return calls_.front().stamp; }
    /// Returns time_since_first_call() of the oldest call in flight; 0 if no call is in flight.
    std::chrono::duration<double> age() noexcept {
        return calls_.empty() ? std::chrono::duration<double>{} : time_since_first_call(calls_.front().since);
    }

    /// Counts how long this rank waits for others. Call this repeatedly while calls wait, after polls without result.
    void follow_waits();
    /// Returns the counts of completed calls and of waits.
    call_counts& counts() noexcept { return waits_.counts(); }

    /// Progresses all calls. Returns true if anything happened. Nothing is guaranteed to complete after a failure.
    bool progress() noexcept;

    /// Adds the ranks and operations that the calls in flight are waiting for.
    /// @param callers_rank the caller's rank numbers, by rank of the plan
    void add_waits(const std::vector<int>& callers_rank, waiting& all) const;

private:
    struct pending_call {
        std::uint64_t number = 0;
        program* run = nullptr;
        call_stamp stamp{};
        int request_block = -1;                         // -1: the call has not begun
        std::chrono::steady_clock::time_point since{};  // time of the first age()
        std::uint64_t first_event = 0;                  // number of events before
        std::uint64_t begun = 0;                        // ticks of its first event; 0: none yet
    };

    void begin(pending_call& c) noexcept;
    void finish() noexcept;

    endpoint& net_;
    recorder& events_;
    scratch_pool scratch_;
    std::function<void(int)> others_;       // receives completed slots behind the blocks
    int block_size_;                        // request slots of one block, the maximum of a program
    std::vector<program*> request_blocks_;  // by block: the program that uses it; null: none
    lane_slot_table lane_slots_;
    std::uint64_t issued_ = 0;         // calls
    std::vector<pending_call> calls_;  // in the order of issue
    wait_counter waits_;
};

}  // namespace terrace::detail
