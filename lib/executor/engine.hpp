#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "executor/program.hpp"
#include "executor/recorder.hpp"

namespace terrace {

/// What a rank waits for, by the callers' numbering.
struct waiting {
    std::vector<std::string> lines;  ///< one each: the call, and where in it
    std::set<int> ranks;
};

/// Runs the programs of one communicator: any number of calls in flight, all moved along together. Every rank issues
/// the same calls in the same order; they may complete in any order. A call whose slots an earlier one still uses
/// begins when that is through. Issuing and running allocate nothing while few calls are in flight.
class engine {
public:
    /// @param lanes the most that any program has   @param events may be shared by nobody else
    engine(transport& net, int lanes, recorder& events);

    /// Transport slots in flight at once, for transport::reserve.
    static constexpr int most_running = 16;

    /// The program must be idle, and stay where it is until the call is done.
    /// @returns the number of the call, from 1
    std::uint64_t issue(program& p, const void* send, void* recv);
    bool done(std::uint64_t call) const noexcept;
    bool idle() const noexcept { return flights_.empty(); }
    /// Whether a call that has begun has lanes that have not: some more of progress(), and all of them are under way.
    bool beginning() const noexcept;
    /// Of the calls in flight.
    std::uint64_t oldest() const noexcept { return flights_.front().call; }
    /// How long ago this was first asked of the oldest call in flight: whoever waits asks all the time.
    std::chrono::duration<double> age() noexcept;

    /// Moves all calls along. True if anything happened. Does nothing once the transport has failed.
    bool progress() noexcept;

    /// What calls in flight wait for: stage, step and rank.
    /// @param callers_rank by rank
    void add_waits(const std::vector<int>& callers_rank, waiting& all) const;

private:
    struct flight {
        std::uint64_t call = 0;
        program* run = nullptr;
        const void* send = nullptr;
        void* recv = nullptr;
        int berth = -1;                                 // -1: has not begun
        std::chrono::steady_clock::time_point since{};  // when it was first asked for its age
    };

    bool may_begin(const flight& f) const noexcept;
    void begin(flight& f) noexcept;
    void finish() noexcept;

    transport& net_;
    recorder& events_;
    int berth_slots_;                   // transport slots of one berth
    std::vector<program*> berths_;      // who uses them; null: nobody
    std::vector<std::uint64_t> turns_;  // chunks issued so far by lane slot: equal on all ranks
    std::vector<bool> taken_;           // lane slots whose program runs
    int next_slot_ = 0;
    std::uint64_t calls_ = 0;
    std::vector<flight> flights_;  // in the order of issue
};

/// Runs a program, which uses no lane slots, from begin to end on a transport with nothing else in flight. Set-up.
/// @throws transport_error
void run_alone(program& p, transport& net, const void* send, void* recv);

}  // namespace terrace
