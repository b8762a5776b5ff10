#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "schedule/schedule.hpp"
#include "schedule/verify.hpp"

namespace terrace::detail::test {

enum class verdict {
    fine,
    wrong,  ///< a result that is not the sum scaled once, has different bits on different ranks, or is not the input
            ///< (broadcast, allgather); a write to other memory of the caller
    stuck,  ///< does not end
    out_of_bounds,  ///< accesses elements outside a buffer
};

/// Runs the schedules of a collective as an asynchronous executor might, in a random order of events, and judges the
/// result without the verifier. An instruction starts when all instructions that it waits for have completed. It reads
/// its operands, writes its destination and completes at later, independent times. Messages are issued in program order
/// per rank and direction, a random number of them in flight, by rendezvous or eagerly in a run, and match by (from,
/// to, channel). A reduction with `completes` scales its result, as avg does.
class interleaver {
public:
    explicit interleaver(std::span<const schedule> schedules, const expectation& of = {});
    ~interleaver();

    /// Runs the schedules once with random inputs, in place or out of place.
    verdict run(std::uint64_t seed);

private:
    class machine;
    std::unique_ptr<machine> machine_;
};

/// Returns the first verdict that is not `fine` in this number of runs; else `fine`.
verdict judge(std::span<const schedule> schedules, int runs, std::uint64_t seed, const expectation& of = {});

}  // namespace terrace::detail::test
