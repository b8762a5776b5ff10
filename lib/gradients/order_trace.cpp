#include "gradients/order_trace.hpp"

#include <algorithm>

#include "base/hash.hpp"
#include "base/index.hpp"

namespace terrace::detail {

order_trace::order_trace(std::vector<int> order)
    : order_(std::move(order)), is_seen_(order_.size()), left_(order_.size()) {
    seen_.reserve(order_.size());
    seen_at_.reserve(order_.size());
    proposal_.reserve(order_.size());
}

bool order_trace::asks_for_change(int buckets, const std::function<int(int)>& bucket_of) {
    if (seen_.empty()) return false;
    if (first_) {
        first_ = false;
        return proposal() != order_;
    }
    std::fill_n(left_.begin(), buckets, 0);
    for (int p : seen_) ++left_[at(bucket_of(p))];
    std::uint64_t hash = 1;
    int before = -1;
    bool in_order = true;
    for (int p : seen_) {
        const int bucket = bucket_of(p);
        if (--left_[at(bucket)] > 0) continue;
        in_order &= bucket > before;
        before = bucket;
        hash = hash_of(&bucket, sizeof bucket, hash);
    }
    in_a_row_ = hash == last_ ? in_a_row_ + 1 : 1;
    last_ = hash;
    return !in_order && in_a_row_ >= patience;
}

const std::vector<int>& order_trace::proposal() {
    std::fill(is_seen_.begin(), is_seen_.end(), 0);
    for (int p : seen_) is_seen_[at(p)] = 1;
    proposal_ = seen_;
    for (int p : order_)
        if (is_seen_[at(p)] == 0) proposal_.push_back(p);
    return proposal_;
}

std::vector<double> order_trace::ready_times() const {
    std::vector<double> times;
    for (const auto& t : seen_at_) times.push_back(std::chrono::duration<double>(t - seen_at_.front()).count());
    return times;
}

void order_trace::follow(const std::vector<int>& order) {
    order_ = order;
    first_ = false;
    in_a_row_ = 0;
}

}  // namespace terrace::detail
