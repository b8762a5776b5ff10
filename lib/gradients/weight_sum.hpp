#pragma once

#include <terrace/communicator.hpp>

namespace terrace::detail {

/// The weight of this rank in an iteration, and the sum of the weights of all ranks. Stays at its address.
class weight_sum {
public:
    /// Starts to find the sum.
    void start(communicator& comm, double mine) {
        mine_ = mine;
        call_ = comm.allreduce_async(std::span<const double>(&mine_, 1), std::span(&total_, 1), exact(reduce_op::sum));
    }
    /// Returns true if the sum is known, and moves calls along.
    bool test() { return call_.test(); }
    /// Returns when the sum is known.
    void wait() { call_.wait(); }
    double total() const noexcept { return total_; }
    /// Returns the part of this rank: 0 to 1.
    double share() const noexcept { return mine_ / total_; }

private:
    double mine_ = 1, total_ = 1;
    request call_;
};

}  // namespace terrace::detail
