#pragma once

#include <terrace/communicator.hpp>

namespace terrace::detail {

/// Weight of this rank in an iteration, and the sum of the weights of all ranks. Must not move while a call runs.
class weight_sum {
public:
    /// Starts to compute the sum.
    void start(communicator& comm, double mine) {
        mine_ = mine;
        call_ = comm.allreduce_async(std::span<const double>(&mine_, 1), std::span(&total_, 1), exact(reduce_op::sum));
    }
    /// Progresses calls. Returns true if the sum is known.
    bool test() { return call_.test(); }
    /// Waits until the sum is known.
    void wait() { call_.wait(); }
    double total() const noexcept { return total_; }
    /// Returns the weight of this rank relative to the sum: 0 to 1.
    double share() const noexcept { return mine_ / total_; }

private:
    double mine_ = 1, total_ = 1;
    request call_;
};

}  // namespace terrace::detail
