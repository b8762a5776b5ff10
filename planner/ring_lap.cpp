#include "planner/ring_lap.hpp"

#include <algorithm>
#include <utility>

#include "base/index.hpp"
#include "base/partition.hpp"

namespace terrace::detail {

namespace {

// Returns the hops from one position to the next, of so many in a row: by height, those that cross domains of this
// height and none of the next.
std::vector<int> hops_of(const phase_setting& s, int first, int positions) {
    std::vector<int> hops;
    const int from = s.samples.first_rank(s.where, s.where.from, first);
    const int to = s.samples.first_rank(s.where, s.where.from, first + positions - 1);
    for (int h = s.where.from; h < s.where.to; ++h) {
        const int crossed = s.samples.domain_at(s.where, h, to) - s.samples.domain_at(s.where, h, from);
        if (!hops.empty()) hops.back() -= crossed;
        hops.push_back(crossed);
    }
    return hops;
}

// Returns the hops that a part goes over: around the ring, but for one of the shortest.
std::vector<int> hops_of_lap(const phase_setting& s, const sample_place& any) {
    std::vector<int> hops = hops_of(s, any.first, any.positions);
    const auto some = [](int count) { return count > 0; };
    ++*std::find_if(hops.rbegin(), hops.rend(), some);  // back from the last position to the first
    --*std::find_if(hops.begin(), hops.end(), some);
    return hops;
}

// Returns the hops inside the longest domain of a height, counted from the positions' on.
std::vector<int> hops_inside(const load_tally& tally, std::size_t height) {
    sample_place::block longest;
    for (const std::size_t i : tally.samples())
        if (const sample_place::block& b = tally.setting().place_of(i).blocks[height]; b.positions > longest.positions)
            longest = b;
    return hops_of(tally.setting(), tally.any_place().first + longest.first, longest.positions);
}

// Returns the time that a vector takes on the slowest of the NICs by which positions leave their node [s/B].
double time_on_nics(const load_tally& tally) {
    const phase_setting& s = tally.setting();
    double time = 0;
    for (const std::size_t i : tally.samples()) {
        const sample_place& q = s.place_of(i);
        for (const sample_place::on_nic& of : q.nic)
            if (of.position == q.position) time = std::max(time, of.vectors / s.nic_rate(i));
    }
    return time;
}

}  // namespace

bool is_ring(const pattern& p) {
    const int size = static_cast<int>(p.reduced.size());
    const auto to_next = [size](const exchange::message& m) { return wrap(m.to - m.from, size) == 1; };
    const auto all_to_next = [&](const exchange& e) {
        return e.messages.size() == (p.circulant ? 1 : at(size)) &&
               std::all_of(e.messages.begin(), e.messages.end(), to_next);
    };
    return size > 2 && !p.exchanges.empty() && std::all_of(p.exchanges.begin(), p.exchanges.end(), all_to_next);
}

void add_lap(load_tally& tally, int rings) {
    const phase_setting& s = tally.setting();
    const sample_place& any = tally.any_place();
    const double part = 1.0 / any.positions, piece = part * tally.largest_piece();
    const std::vector<int> hops = hops_of_lap(s, any);
    std::vector<std::vector<int>> inside;
    for (std::size_t height = 0; height + 1 < hops.size(); ++height) inside.push_back(hops_inside(tally, height));
    double wire = tally.inside() * part, longest = 0;
    for (std::size_t height = 0; height < hops.size(); ++height) {
        const int h = s.where.from + static_cast<int>(height), number = s.level_at(h);
        const device_rates rates = s.rates_on(s.machine.levels[at(number)]);
        if (s.where.tiers[at(h)].linked()) wire = std::max(wire, part * any.below.back() / rates.bandwidth);
        if (s.leaves_nodes(h)) wire = std::max(wire, part / rings * time_on_nics(tally));
        if (hops[height] == 0) continue;
        ring_hop hop{.latency = rates.step,
                     .wire = wire,
                     .message = s.messages(piece / rings, number, 1),
                     .memory = piece * s.handling_time(number),
                     .count = hops[height],
                     .within = {}};
        for (const std::vector<int>& of : inside) hop.within.push_back(of[height]);
        tally.now().lap.push_back(std::move(hop));
        longest = std::max(longest, rates.step);
    }
    tally.now().startups = longest;
}

}  // namespace terrace::detail
