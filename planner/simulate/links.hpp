#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "machine/hierarchy.hpp"
#include "machine/link_rows.hpp"

namespace terrace::detail {

/// The load of one direction of one link.
struct link_load {
    int row = 0;                 ///< index into link_rows: the link of a child into a level, or a NIC ...
    int child = 0;               ///< number in the row, over the whole machine
    bool inward = false;         ///< towards the child; on a ring, from the child to the next lower one
    double rate = 0;             ///< [B/s]
    double bytes = 0;            ///< passed so far
    std::vector<float> history;  ///< bytes that passed in each interval of link_loads::interval()
};

/// The loads of all links of a machine over time.
class link_loads {
public:
    /// @param counts false: add() does nothing
    explicit link_loads(const hierarchy& machine, bool counts = true);

    /// Returns the links that a message uses (link_rows::for_each_link).
    std::vector<int> path(int from, int to) const {
        std::vector<int> links;
        rows_.for_each_link(from, to, [&](int link, int, bool) { links.push_back(link); });
        return links;
    }
    double rate(int link) const { return links_[static_cast<std::size_t>(link)].rate; }
    /// Returns true if the link may be slower than the links below it together. Transfers never wait for other links.
    bool limits(int link) const { return limits_[static_cast<std::size_t>(link)]; }
    int size() const noexcept { return static_cast<int>(links_.size()); }

    /// Counts bytes that pass the link between two times [s].
    void add(int link, double begin, double end, double bytes) {
        if (counts_) count(link, begin, end, bytes);
    }
    double interval() const noexcept { return interval_; }
    std::vector<link_load> take() noexcept { return std::move(links_); }

private:
    static constexpr std::size_t intervals = 256;

    std::vector<double> rates_below() const;
    void count(int link, double begin, double end, double bytes);
    void widen();

    const hierarchy& machine_;
    link_rows rows_;
    bool counts_;
    std::vector<link_load> links_;
    std::vector<bool> limits_;
    double interval_ = 1e-6;
};

}  // namespace terrace::detail
