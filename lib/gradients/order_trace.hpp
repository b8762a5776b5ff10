#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

namespace terrace::detail {

/// Order in which gradients become ready on one rank, and the decision whether buckets should follow this order.
///
/// Buckets follow the order of the first iteration. Later they change only if they become complete in another order
/// than they start, and in the same order in some iterations in a row. A single slow gradient is ignored.
class order_trace {
public:
    /// @param order of the gradients in the buckets
    explicit order_trace(std::vector<int> order);

    /// Records that the gradient of a parameter is ready.
    void saw(int parameter) {
        seen_.push_back(parameter);
        seen_at_.push_back(std::chrono::steady_clock::now());
    }
    /// Returns the number of iterations that have been traced.
    int iterations() const noexcept { return iterations_; }
    /// Returns the times at which gradients became ready, in the order of proposal() [s since the first one].
    std::vector<double> ready_times() const {
        std::vector<double> times;
        for (const auto& t : seen_at_) times.push_back(std::chrono::duration<double>(t - seen_at_.front()).count());
        return times;
    }
    /// Returns true if the buckets should follow another order. To be called once in an iteration, after all saw().
    /// @param buckets number of buckets   @param bucket_of returns the bucket of a parameter
    bool asks_for_change(int buckets, const std::function<int(int)>& bucket_of);
    /// Returns the order of this iteration; parameters that were not seen follow, in the order so far.
    std::vector<int> proposal() const;
    /// Sets the order that the buckets follow from now on.
    void follow(const std::vector<int>& order) {
        order_ = order;
        first_ = false;
        in_a_row_ = 0;
    }
    /// Clears the recorded order, for the next iteration.
    void restart() noexcept {
        iterations_ += !seen_.empty();
        seen_.clear();
        seen_at_.clear();
    }

private:
    static constexpr int patience = 3;  // iterations in a row; any number from 2 on ignores a single different one

    std::vector<int> order_;  // present order of the buckets
    std::vector<int> seen_;   // in this iteration
    std::vector<std::chrono::steady_clock::time_point> seen_at_;
    int iterations_ = 0;
    std::vector<int> left_;  // scratch of asks_for_change(), by bucket
    bool first_ = true;
    std::uint64_t last_ = 0;  // hash of the order in which buckets were complete in the previous iteration
    int in_a_row_ = 0;
};

}  // namespace terrace::detail
