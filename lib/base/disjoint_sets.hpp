#pragma once

#include <algorithm>
#include <vector>

#include "base/index.hpp"

namespace terrace::detail {

/// Sets of the numbers 0 ... n - 1 that merge (union-find). The least member stands for each.
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
