#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/partition.hpp"
#include "machine/hierarchy.hpp"
#include "planner/link_rows.hpp"

namespace terrace::detail {

/// The load of one direction of one link.
struct link_load {
    int row = 0;                 ///< of link_rows: the link is that of a child into this level, or a NIC ...
    int child = 0;               ///< of the row, counted over the whole machine
    bool inward = false;         ///< towards the child; on a ring, from the child downwards rather than upwards
    double rate = 0;             ///< [B/s]
    double bytes = 0;            ///< that have passed
    std::vector<float> history;  ///< bytes that passed in each interval of link_loads::interval()
};

/// The loads of all links of a machine over time.
class link_loads {
public:
    /// @param counts false: add() does nothing
    explicit link_loads(const hierarchy& machine, bool counts = true);

    /// Calls f(link) for every link that a message passes, from the innermost level outwards. On a torus a message goes
    /// dimension by dimension, in the shorter direction around each ring.
    template <class F>
    void for_each_link(int from, int to, F&& f) const {
        const int top = machine_.shape.common_level(from, to);
        for (int l = 0; l <= top; ++l) {
            const int a = machine_.shape.domain_of(l - 1, from), b = machine_.shape.domain_of(l - 1, to);
            const int first = first_[static_cast<std::size_t>(l)];
            if (machine_.levels[static_cast<std::size_t>(l)].ring) {
                for_each_hop(l, a, b, [&](int child, bool down) { f(first + 2 * child + down); });
                continue;
            }
            f(first + 2 * a);
            f(first + 2 * b + 1);
        }
        if (!rows_.passes_nic(top)) return;
        for (int row = rows_.nic_row(); row < rows_.count(); ++row) {
            if (row == rows_.spine_row() && !rows_.passes_spine(from, to)) break;
            const int first = first_[static_cast<std::size_t>(row)];
            f(first + 2 * rows_.member_of(row, from));
            f(first + 2 * rows_.member_of(row, to) + 1);
        }
    }
    double rate(int link) const { return links_[static_cast<std::size_t>(link)].rate; }
    /// Returns true if the link can hold up what its child's own children send. Nothing ever waits for other links.
    bool limits(int link) const { return limits_[static_cast<std::size_t>(link)]; }
    int size() const noexcept { return static_cast<int>(links_.size()); }

    /// Adds bytes that pass between two times [s].
    void add(int link, double begin, double end, double bytes) {
        if (counts_) count(link, begin, end, bytes);
    }
    double interval() const noexcept { return interval_; }
    std::vector<link_load> take() noexcept { return std::move(links_); }

private:
    static constexpr std::size_t intervals = 256;

    // From one child of a level of rings to the position of another on its ring.
    template <class F>
    void for_each_hop(int l, int a, int b, F&& f) const {
        const int n = machine_.shape.children(l, 0);
        const int from = a - machine_.shape.first_child(l, machine_.shape.domain_of(l, first_rank(l, a)));
        const int to = b - machine_.shape.first_child(l, machine_.shape.domain_of(l, first_rank(l, b)));
        const int hops = ring_hops(from, to, n);
        for (int k = 0; k < (hops < 0 ? -hops : hops); ++k) f(a - from + wrap(from + (hops < 0 ? -k : k), n), hops < 0);
    }
    int first_rank(int l, int child) const { return machine_.shape.first_rank(l - 1, child); }

    std::vector<double> rates_below() const;
    void count(int link, double begin, double end, double bytes);
    void widen();

    const hierarchy& machine_;
    link_rows rows_;
    bool counts_;
    std::vector<int> first_;  // link of each row
    std::vector<link_load> links_;
    std::vector<bool> limits_;
    double interval_ = 1e-6;
};

}  // namespace terrace::detail
