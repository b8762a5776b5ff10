#include "planner/nccl_stage.hpp"

#include <algorithm>

#include "base/index.hpp"
#include "planner/devices.hpp"

namespace terrace::detail {

namespace {

// Vectors through each link: (p-1)/p around a ring, twice that where all get everything, and one to or from a root.
double vectors_through(mode how, double size) {
    const double once = (size - 1) / size;
    return how == mode::root ? 1 : how == mode::replicate ? 2 * once : once;
}

// Vectors through a sample's link of a height. NCCL has no scatter and no gather: these are messages from or to the
// root.
link_use through(const phase_setting& s, int height, const sample_place& p, double size) {
    if (!only_at_root(s.at_root)) return link_use{1, 1} * vectors_through(s.where.how, size);
    const bool inside = height <= s.where.from;
    const sample_place::block b = inside ? sample_place::block{p.position, 1} : p.blocks[at(height - s.where.from - 1)];
    const double away = b.first == 0 ? (size - b.positions) / size : 0, here = b.first == 0 ? 0 : b.positions / size;
    return s.down ? link_use{here, away} : link_use{away, here};
}

double startup_of(const phase_setting& s, int outermost) {
    double longest = 0;
    for (int l = s.level_at(s.where.from); l <= outermost; ++l)
        longest = std::max(longest, nccl_rates(s.machine.levels[at(l)]).stage);
    return longest;
}

}  // namespace

void add_nccl_stage(load_tally& tally) {
    const phase_setting& s = tally.setting();
    const int outermost = s.outermost_joining();
    const bool has_root = s.where.how == mode::root;
    const bool crosses_network = between_nodes(s.machine.levels[at(outermost)].medium);
    const double size = tally.size();
    const double added = has_root ? 1 : (size - 1) / size;
    load_tally::domain_load& now = tally.now();
    now.startups = std::max(now.startups, startup_of(s, outermost));
    for (const std::size_t i : tally.samples()) {
        const sample_place& q = s.place_of(i);
        if (!s.down && s.at_root == root_part::none)
            tally.add_processor_time(i, added * q.share * reduce_time(s.machine));
        tally.note_size(q.largest / (has_root ? 1 : size), crosses_network);
        for (int h = 0; h < s.where.to; ++h) {
            if (!s.where.tiers[at(h)].linked()) continue;
            const link_use vectors = through(s, h, q, size) * q.below[at(std::min(h, s.where.from))];
            tally.pass(i, h, vectors);
            now.wire = std::max(now.wire, vectors.busier() / s.rate(i, h));
        }
        // Inside nodes NCCL hands data to whichever NIC is free.
        if (q.nic.empty() || !s.leaves_nodes(s.where.from)) continue;
        const link_use vectors = through(s, s.where.from, q, size) * q.nic.front().vectors;
        tally.pass_row(i, s.samples.rows().nic_row(), vectors);
        now.wire = std::max(now.wire, vectors.busier() / s.nic_rate(i));
    }
}

}  // namespace terrace::detail
