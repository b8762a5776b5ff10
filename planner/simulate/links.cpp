#include "planner/simulate/links.hpp"

#include <algorithm>

#include "base/index.hpp"
#include "machine/devices.hpp"

namespace terrace::detail {

link_loads::link_loads(const hierarchy& machine, bool counts) : machine_(machine), rows_(machine), counts_(counts) {
    for (int row = 0; row < rows_.count(); ++row)
        for (int child = 0; child < rows_.members(row); ++child)
            for (const bool inward : {false, true})
                links_.push_back({row, child, inward, rows_.rate(rows_.link(row, child, inward)), 0, {}});
    const std::vector<double> below = rates_below();
    for (std::size_t i = 0; i < links_.size(); ++i) {
        const int row = links_[i].row;
        // In stages in shared memory, data do not come from links below.
        const bool always =
            row == 0 || (rows_.is_level(row) && (machine.levels[at(row)].ring || through_memory(machine, row)));
        limits_.push_back(always || links_[i].rate < below[i]);
    }
}

// Returns, by link, the rate at which data can arrive from the children or ranks below it [B/s].
std::vector<double> link_loads::rates_below() const {
    std::vector<double> below(links_.size());
    const auto add = [&](int row, int child, double rate) {
        for (const bool inward : {false, true}) below[at(rows_.link(row, child, inward))] += rate;
    };
    for (int l = 1; l < machine_.depth(); ++l)
        for (int child = 0; child < machine_.shape.members(l - 1); ++child)
            add(l, machine_.shape.parent(l - 1, child), machine_.rate(l - 1, child));
    for (int row = rows_.nic_row(); row < rows_.count(); ++row)
        for (int rank = 0; rank < machine_.ranks(); ++rank)
            add(row, rows_.member_of(row, rank), machine_.rate(0, rank));
    const std::vector<double> of_nics = machine_.nics.node_rates();
    for (int node = 0; node < machine_.nics.nodes(); ++node)
        for (const bool inward : {false, true}) {
            double& most = below[at(rows_.link(machine_.node_levels(), node, inward))];
            most = std::min(most, of_nics[at(node)]);
        }
    return below;
}

void link_loads::count(int link, double begin, double end, double bytes) {
    while (end > interval_ * static_cast<double>(intervals)) widen();
    link_load& l = links_[at(link)];
    l.bytes += bytes;
    const auto first = std::min(intervals - 1, static_cast<std::size_t>(begin / interval_));
    const auto last = std::min(intervals - 1, static_cast<std::size_t>(end / interval_));
    if (l.history.size() <= last) l.history.resize(last + 1);
    for (std::size_t i = first; i <= last; ++i) {
        const double low = std::max(begin, static_cast<double>(i) * interval_);
        const double high = i == last ? end : std::min(end, static_cast<double>(i + 1) * interval_);
        const double part = first == last ? 1 : (high - low) / (end - begin);
        l.history[i] += static_cast<float>(bytes * part);
    }
}

// Merges every two intervals into one.
void link_loads::widen() {
    for (link_load& l : links_) {
        for (std::size_t i = 0; i < l.history.size(); ++i)
            if (i % 2 == 0) l.history[i / 2] = l.history[i];
            else l.history[i / 2] += l.history[i];
        l.history.resize((l.history.size() + 1) / 2);
    }
    interval_ *= 2;
}

}  // namespace terrace::detail
