#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "schedule/schedule.hpp"
#include "schedule/verify.hpp"

namespace terrace::detail::test {

enum class verdict {
    fine,
    wrong,  ///< a result that is not the sum scaled once, not the same bits on all ranks, or not what was passed
            ///< in (broadcast, allgather); a write to anything else of the caller's
    stuck,  ///< does not end
    out_of_bounds,  ///< touches what there is not
};

/// Runs the schedules of a collective the way an asynchronous executor might, in a random order of events, and judges
/// by the result. Shares no reasoning with the verifier. An instruction starts when all it waits for has completed; it
/// reads its operands, writes its destination and completes at later times of its own. Messages are issued in program
/// order per rank and direction, a random number of them in flight, rendezvous or eager by the run, and match by (from,
/// to, channel). A reduction that says it completes scales what it writes, as avg does.
class interleaver {
public:
    explicit interleaver(std::span<const schedule> schedules, const expectation& of = {});
    ~interleaver();

    /// One run with random inputs, in place or out of place.
    verdict run(std::uint64_t seed);

private:
    class machine;
    std::unique_ptr<machine> machine_;
};

/// The first verdict but `fine` of so many runs.
verdict judge(std::span<const schedule> schedules, int runs, std::uint64_t seed, const expectation& of = {});

}  // namespace terrace::detail::test
