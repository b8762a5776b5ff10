#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace terrace::detail {

/// Converts a rank, level or other number that is never negative to an index of the standard library's containers.
constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Returns 0 ... n - 1.
inline std::vector<int> numbers_below(int n) {
    std::vector<int> numbers(at(n));
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
}

/// Returns the first index of a number in a list; the length of the list if the number is missing.
inline int position_of(int number, const std::vector<int>& list) {
    return static_cast<int>(std::find(list.begin(), list.end(), number) - list.begin());
}

/// Sorts values and removes duplicates.
template <typename Value>
void keep_different(std::vector<Value>& values) {
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace terrace::detail
