#pragma once

#include <vector>

#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// Says which domains are alike: of(l, a) == of(l, b) where domains a and b of level l nest equally, and the same marks
/// are on what they hold.
class likeness {
public:
    /// @param apart domains that hold this rank are like no others; -1: none
    /// @param marks by level, of each child; empty: none there
    explicit likeness(const tree& t, int apart = -1, const std::vector<std::vector<int>>& marks = {});

    int of(int l, int d) const noexcept { return classes_[static_cast<std::size_t>(l)][static_cast<std::size_t>(d)]; }
    /// Returns the first domain of each kind, ascending.
    const std::vector<int>& firsts(int l) const noexcept { return firsts_[static_cast<std::size_t>(l)]; }

private:
    std::vector<std::vector<int>> classes_, firsts_;
};

}  // namespace terrace::detail
