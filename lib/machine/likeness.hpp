#pragma once

#include <vector>

#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// Finds domains that are alike: of(l, a) == of(l, b) if domains a and b of level l nest equally, and their contents
/// have equal marks.
class likeness {
public:
    /// @param apart a rank whose domains are like no others; -1: none
    /// @param marks by level: a mark of each child; empty: no marks at this level
    explicit likeness(const tree& t, int apart = -1, const std::vector<std::vector<int>>& marks = {});

    int of(int l, int d) const noexcept { return classes_[static_cast<std::size_t>(l)][static_cast<std::size_t>(d)]; }
    /// Returns the first domain of each class of equal domains, ascending.
    const std::vector<int>& firsts(int l) const noexcept { return firsts_[static_cast<std::size_t>(l)]; }

private:
    std::vector<std::vector<int>> classes_, firsts_;
};

}  // namespace terrace::detail
