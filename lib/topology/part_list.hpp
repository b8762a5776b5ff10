#pragma once

#include <vector>

#include "base/index.hpp"
#include "topology/model.hpp"

namespace terrace::detail {

/// The number of no part.
inline constexpr int nowhere = -1;

/// The parts of a machine in preorder, by number, each with the one above it. The machine must outlive it.
class part_list {
public:
    explicit part_list(part& machine);

    int size() const { return static_cast<int>(entries_.size()); }
    part& operator[](int i) const { return *entries_[at(i)].p; }
    /// The part that holds part i; nowhere for the machine.
    int above(int i) const { return entries_[at(i)].above; }

    /// The smallest part of this kind that holds part i, or i itself if there is none.
    int within(int i, part::kind what) const;
    /// The smallest part that is or holds both.
    int common(int a, int b) const;
    /// How many of `chosen` each part is or holds.
    std::vector<int> counts(const std::vector<int>& chosen) const;
    /// All parts of this kind, in preorder.
    std::vector<int> of_kind(part::kind what) const;

private:
    struct entry {
        part* p;
        int above;
    };
    void list(part& p, int above);

    std::vector<entry> entries_;
};

}  // namespace terrace::detail
