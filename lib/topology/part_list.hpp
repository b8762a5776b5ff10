#pragma once

#include <vector>

#include "base/index.hpp"
#include "topology/model.hpp"

namespace terrace::detail {

/// Number that stands for no part.
inline constexpr int nowhere = -1;

/// The parts of a machine, numbered in preorder, each with its parent. The machine must outlive the list.
class part_list {
public:
    explicit part_list(part& machine) { list(machine, nowhere); }

    int size() const { return static_cast<int>(entries_.size()); }
    part& operator[](int i) const { return *entries_[at(i)].p; }
    /// Returns the part directly above part i; `nowhere` for the machine.
    int above(int i) const { return entries_[at(i)].above; }

    /// Returns the smallest part of this kind that holds part i, or i itself if there is none.
    int within(int i, part::kind what) const {
        for (int place = above(i); place != nowhere; place = above(place))
            if ((*this)[place].what == what) return place;
        return i;
    }
    /// Returns the smallest part that is or holds both.
    int common(int a, int b) const {
        while (a != b) (a > b ? a : b) = above(a > b ? a : b);  // a parent has a smaller number
        return a;
    }
    /// Returns, by part, how many of `chosen` the part is or holds.
    std::vector<int> counts(const std::vector<int>& chosen) const {
        std::vector<int> result(at(size()), 0);
        for (const int i : chosen) ++result[at(i)];
        for (int i = size() - 1; i > 0; --i) result[at(above(i))] += result[at(i)];
        return result;
    }
    /// Returns all parts of this kind, in preorder.
    std::vector<int> of_kind(part::kind what) const {
        std::vector<int> found = numbers_below(size());
        std::erase_if(found, [&](int i) { return (*this)[i].what != what; });
        return found;
    }

private:
    struct entry {
        part* p;
        int above;
    };
    void list(part& p, int above) {
        const int self = size();
        entries_.push_back({&p, above});
        for (part& c : p.children) list(c, self);
    }

    std::vector<entry> entries_;
};

}  // namespace terrace::detail
