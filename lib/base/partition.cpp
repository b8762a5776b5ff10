#include "base/partition.hpp"

#include <algorithm>

namespace terrace::detail {

namespace {

// Returns cut i of `parts` + 1. Dividing first keeps the product within 64 bits.
std::int64_t cut(range whole, int parts, int i, std::int64_t quantum) noexcept {
    if (i == 0) return whole.begin;
    if (i == parts) return whole.end;
    const std::int64_t at = whole.begin + whole.count() / parts * i + whole.count() % parts * i / parts;
    return std::clamp((at + quantum / 2) / quantum * quantum, whole.begin, whole.end);
}

}  // namespace

range partition(range whole, int parts, int i, std::int64_t quantum) noexcept {
    return {cut(whole, parts, i, quantum), cut(whole, parts, i + 1, quantum)};
}

}  // namespace terrace::detail
