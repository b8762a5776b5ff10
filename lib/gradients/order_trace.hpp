#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

namespace terrace::detail {

/// The order in which gradients become ready on one rank, and whether the buckets ought to follow it.
///
/// Buckets follow the order of the first iteration. Later they change only if they are complete in another order than
/// that in which they start, and in the same one in some iterations in a row: so not for a single slow gradient.
class order_trace {
public:
    /// @param order that the buckets follow
    explicit order_trace(std::vector<int> order);

    /// The gradient of a parameter is ready.
    void saw(int parameter) {
        seen_.push_back(parameter);
        seen_at_.push_back(std::chrono::steady_clock::now());
    }
    /// Returns how many iterations have been traced.
    int iterations() const noexcept { return iterations_; }
    /// Returns when gradients were seen in this iteration, in the order of proposal() [s since the first one].
    std::vector<double> ready_times() const {
        std::vector<double> times;
        for (const auto& t : seen_at_) times.push_back(std::chrono::duration<double>(t - seen_at_.front()).count());
        return times;
    }
    /// Whether the buckets ought to follow another order. To be asked once in an iteration, when all is seen.
    /// @param buckets how many there are   @param bucket_of the bucket of a parameter
    bool asks_for_change(int buckets, const std::function<int(int)>& bucket_of);
    /// Returns the order that was seen last; parameters that were not seen come behind, in the order so far.
    std::vector<int> proposal() const;
    /// The buckets follow this order from now on.
    void follow(const std::vector<int>& order) {
        order_ = order;
        first_ = false;
        in_a_row_ = 0;
    }
    /// Forgets what was seen: for the next iteration.
    void restart() noexcept {
        iterations_ += !seen_.empty();
        seen_.clear();
        seen_at_.clear();
    }

private:
    static constexpr int patience = 3;  // iterations in a row; any number from 2 on keeps single ones from mattering

    std::vector<int> order_;  // that the buckets follow
    std::vector<int> seen_;   // in this iteration
    std::vector<std::chrono::steady_clock::time_point> seen_at_;
    int iterations_ = 0;
    std::vector<int> left_;  // memory of asks_for_change(), by bucket
    bool first_ = true;
    std::uint64_t last_ = 0;  // hash of the order in which the buckets were complete in the iteration before
    int in_a_row_ = 0;
};

}  // namespace terrace::detail
