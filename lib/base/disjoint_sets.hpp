#pragma once

#include <algorithm>
#include <vector>

#include "base/index.hpp"

namespace terrace::detail {

/// Disjoint sets of the numbers 0 ... n - 1 (union-find). The smallest member represents its set.
class disjoint_sets {
public:
    explicit disjoint_sets(int n) : up_(numbers_below(n)) {}
    int find(int i) {
        while (up_[at(i)] != i) i = up_[at(i)] = up_[at(up_[at(i)])];
        return i;
    }
    void merge(int a, int b) {
        a = find(a), b = find(b);
        up_[at(std::max(a, b))] = std::min(a, b);
    }

private:
    std::vector<int> up_;
};

}  // namespace terrace::detail
