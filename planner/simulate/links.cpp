#include "planner/simulate/links.hpp"

#include <algorithm>

#include "base/index.hpp"
#include "planner/devices.hpp"

namespace terrace::detail {

link_loads::link_loads(const hierarchy& machine) : machine_(machine) {
    for (int l = 0; l < machine.depth(); ++l) {
        first_.push_back(size());
        const double share = machine.levels[at(l)].ring ? machine.ring_share(l) : 1;
        for (int child = 0; child < machine.shape.members(l); ++child)
            for (const bool inward : {false, true})
                links_.push_back({l, child, inward, machine.rate(l, child) * share, 0, {}});
    }
    for (const link_load& link : links_) {
        const int l = link.level;
        double below = 0;
        for (int child = l == 0 ? 0 : machine.shape.first_child(l - 1, link.child);
             l > 0 && child < machine.shape.first_child(l - 1, link.child + 1); ++child)
            below += machine.rate(l - 1, child);
        // Data of stages in shared memory come from no link below.
        limits_.push_back(l == 0 || machine.levels[at(l)].ring || through_memory(machine, l) || link.rate < below);
    }
}

void link_loads::add(int link, double begin, double end, double bytes) {
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

// Makes one interval of every two.
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
