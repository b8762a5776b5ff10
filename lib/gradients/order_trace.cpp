#include "gradients/order_trace.hpp"

#include <algorithm>

#include "base/hash.hpp"
#include "base/index.hpp"

namespace terrace::detail {

order_trace::order_trace(std::vector<int> order) : order_(std::move(order)), left_(order_.size()) {
    seen_.reserve(order_.size());
    seen_at_.reserve(order_.size());
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

std::vector<int> order_trace::proposal() const {
    std::vector<char> is_seen(order_.size());
    for (int p : seen_) is_seen[at(p)] = 1;
    std::vector<int> proposed = seen_;
    for (int p : order_)
        if (is_seen[at(p)] == 0) proposed.push_back(p);
    return proposed;
}

}  // namespace terrace::detail
