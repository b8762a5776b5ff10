#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// The links of a machine in rows: those of the children of each level, then those of NICs, then those of rails to the
/// spine, if there are any. Rows are numbered from the innermost level on; the first depth() are levels. Each direction
/// of a link has a number of its own.
class link_rows {
public:
    explicit link_rows(const hierarchy& machine);

    int count() const noexcept { return spine_row() + (machine_.nics.spine > 0 ? 1 : 0); }
    int nic_row() const noexcept { return machine_.depth(); }
    int spine_row() const noexcept { return machine_.depth() + (machine_.nics.empty() ? 0 : 1); }
    bool is_level(int row) const noexcept { return row < machine_.depth(); }
    /// Returns the level into which the links of a row lead: for NICs and the spine, the level between nodes.
    int level(int row) const noexcept { return is_level(row) ? row : nodes_; }

    int members(int row) const noexcept {
        if (is_level(row)) return machine_.shape.members(row);
        return row == nic_row() ? machine_.nics.count() : machine_.nics.rail_count();
    }
    /// Returns the rate of one link, per direction [B/s].
    double rate(int row, int member) const noexcept {
        if (is_level(row)) return machine_.rate(row, member);
        return row == nic_row() ? machine_.nics.rate(member) : machine_.nics.spine;
    }
    /// Returns the link of a row by which a rank's messages leave.
    int member_of(int row, int rank) const noexcept {
        if (is_level(row)) return machine_.shape.domain_of(row - 1, rank);
        return row == nic_row() ? machine_.nics.of(rank) : rail(rank);
    }
    /// Returns "cluster", "NICs of cluster", "spine of cluster".
    std::string name(int row) const;
    /// Returns the same; for a level "links into cluster".
    std::string text(int row) const { return (is_level(row) ? "links into " : "") + name(row); }

    /// Returns the number of directions, which are numbered from 0.
    int links() const noexcept { return first_.back(); }
    /// Returns a direction. @param inward towards the child; on a ring, from the child downwards (false: upwards)
    int link(int row, int member, bool inward) const noexcept { return first_[at(row)] + 2 * member + inward; }
    int row_of(int link) const noexcept {
        return static_cast<int>(std::ranges::upper_bound(first_, link) - first_.begin()) - 1;
    }
    int member_of(int link) const noexcept { return member_in(link, row_of(link)); }
    /// Returns the rate of one direction [B/s]. On a ring of more than two, a node divides its rate between two links.
    double rate(int link) const noexcept { return rate_of(link, row_of(link)); }
    double rate_of(int link, int row) const noexcept {
        const bool on_ring = is_level(row) && machine_.levels[at(row)].ring;
        return rate(row, member_in(link, row)) * (on_ring ? machine_.ring_share(row) : 1);
    }

    /// Calls f(link, row, at_end) for every link that a message crosses, from the innermost level outwards. `at_end` is
    /// true above the destination, and false above the source and on rings. On a torus a message goes dimension by
    /// dimension, in the shorter direction around each ring.
    template <class F>
    void for_each_link(int from, int to, F&& f) const {
        for_each_link(from, to, machine_.shape.common_level(from, to), f);
    }
    /// @param top the nearest common level of the two ranks
    template <class F>
    void for_each_link(int from, int to, int top, F&& f) const {
        int a = from, b = to;  // children of level l
        const auto go_out = [&](int l) { a = machine_.shape.parent(l, a), b = machine_.shape.parent(l, b); };
        for (int l = 0; l <= top; go_out(l++)) {
            if (machine_.levels[at(l)].ring) {
                for_each_hop(l, a, b, [&](int child, bool down) { f(link(l, child, down), l, false); });
                continue;
            }
            f(link(l, a, false), l, false);
            f(link(l, b, true), l, true);
        }
        if (!passes_nic(top)) return;
        for (int row = nic_row(); row < count(); ++row) {
            if (row == spine_row() && !passes_spine(from, to)) break;
            f(link(row, member_of(row, from), false), row, false);
            f(link(row, member_of(row, to), true), row, true);
        }
    }

    /// Returns true if a message between ranks with this nearest common level leaves its node by a NIC.
    bool passes_nic(int level) const noexcept { return !machine_.nics.empty() && level >= nodes_; }
    /// Returns true if such a message between two ranks crosses the spine.
    bool passes_spine(int from, int to) const noexcept { return machine_.nics.spine > 0 && rail(from) != rail(to); }

private:
    int member_in(int link, int row) const noexcept { return (link - first_[at(row)]) / 2; }
    int rail(int rank) const noexcept { return rails_[at(rank)]; }

    // Calls f(child, down) for each hop from a child of a level of rings to the position of another child on its ring.
    template <class F>
    void for_each_hop(int l, int a, int b, F&& f) const {
        const int n = machine_.shape.children(l, 0), from = place_on_ring(l, a);
        const int hops = ring_hops(from, place_on_ring(l, b), n);
        for (int k = 0; k < (hops < 0 ? -hops : hops); ++k) f(a - from + wrap(from + (hops < 0 ? -k : k), n), hops < 0);
    }
    int place_on_ring(int l, int child) const {
        return child - machine_.shape.first_child(l, machine_.shape.parent(l, child));
    }

    const hierarchy& machine_;
    int nodes_;               // the level whose children are nodes
    std::vector<int> rails_;  // rail by rank; empty if there is no spine
    std::vector<int> first_;  // first link of each row; last entry: links()
};

}  // namespace terrace::detail
