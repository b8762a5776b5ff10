#include "planner/torus.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/index.hpp"
#include "base/wire.hpp"
#include "plan/routes.hpp"
#include "planner/devices.hpp"
#include "planner/policy.hpp"

namespace terrace::detail {

namespace {

// How long a vector that goes through a stage occupies the busiest link of each level [s/B].
std::vector<double> busy_links(const hierarchy& machine, const stage_price& s, collective what) {
    std::vector<double> busy(at(machine.depth()));
    for (const phase_load* p : s.phases(what))
        for (std::size_t link = 0; link < p->links.size(); ++link) {
            const std::size_t l = link / 2 % busy.size();
            busy[l] = std::max(busy[l], p->links[link] * p->slowness[l] / machine.levels[l].bandwidth);
        }
    return busy;
}

// The time that a share of the vector occupies, by the dimension that it goes through first: the busiest link of each
// level, and then each route, as far as these count [s/B].
std::vector<std::vector<double>> occupied_by_order(const hierarchy& machine, collective what,
                                                   std::span<const stage> stages,
                                                   std::span<const std::shared_ptr<const stage_price>> costs,
                                                   std::size_t dimensions, bool in_one_piece) {
    const std::size_t depth = at(machine.depth());
    std::vector<int> order(dimensions);
    std::iota(order.begin(), order.end(), static_cast<int>(stages.size() - dimensions));
    std::vector<std::vector<double>> occupied;
    for (std::size_t first = 0; first < dimensions; ++first) {
        std::vector<double>& sum = occupied.emplace_back(depth + dimensions);
        for (const int s : order) {
            const double growth = growth_in_order(stages, order, s);
            const std::vector<double> of_stage = busy_links(machine, *costs[at(s)], what);
            for (std::size_t l = 0; l < depth; ++l) sum[l] += of_stage[l] * growth;
            for (const phase_load* p : costs[at(s)]->phases(what))
                sum[depth + first] += in_one_piece ? p->wire * growth : 0;
        }
        std::rotate(order.begin(), order.begin() + 1, order.end());
    }
    return occupied;
}

// Gives one share after the other to the order that leaves what is busiest the least busy. Returns the shares by order:
// the fewest of them that come near the best.
std::vector<int> hand_out(const std::vector<std::vector<double>>& occupied) {
    std::vector<double> so_far(occupied.front().size());
    const auto busiest_with = [&](const std::vector<double>& more) {
        double busiest = 0;
        for (std::size_t i = 0; i < so_far.size(); ++i) busiest = std::max(busiest, so_far[i] + more[i]);
        return busiest;
    };
    std::vector<int> shares(occupied.size()), best;
    double least = std::numeric_limits<double>::infinity();
    for (int n = 1; n <= policy.most_route_shares; ++n) {
        const auto next = std::min_element(occupied.begin(), occupied.end(), [&](const auto& a, const auto& b) {
            return busiest_with(a) < busiest_with(b);
        });
        for (std::size_t i = 0; i < so_far.size(); ++i) so_far[i] += (*next)[i];
        ++shares[static_cast<std::size_t>(next - occupied.begin())];
        const double each = *std::max_element(so_far.begin(), so_far.end()) / n;
        if (each * policy.worth_it < least) least = each, best = shares;
    }
    return best;
}

}  // namespace

double around_ring(const phase_setting& s, const exchange& e, int size) {
    const bool one_dimension = s.where.to == s.where.from + 1;
    double forward = 0, back = 0;
    for (const exchange::message& m : e.messages) {
        const int hops = one_dimension ? ring_hops(0, m.to, size) : m.to == size - 1 ? -1 : 1;
        (hops > 0 ? forward : back) += m.part * std::abs(hops);
    }
    return std::max(forward, back);
}

void add_in_turn(load_tally& tally, const pattern& p) {
    const phase_setting& s = tally.setting();
    if (on_gpus(s.machine)) return;  // messages go whole
    const sample_place& any = tally.any_place();
    const double per_vector = 1 / (s.rate(tally.samples().front(), s.where.from) * s.ring_share(s.where.from));
    double parts = 0, messages = 0;
    for (const exchange& e : p.exchanges)
        for (const exchange::message& m : e.messages)
            if (m.from == 0) parts += m.part * e.times, messages += e.times;
    tally.now().in_turn = parts * any.below.back() * per_vector;
    const double ranks = any.below.back() / any.share;
    tally.now().overlap =
        (messages - 1) * slots_each_way * static_cast<double>(s.machine.processors.segment) * ranks * per_vector;
}

double growth_in_order(std::span<const stage> stages, const std::vector<int>& order, int number) {
    double growth = 1;
    for (auto before = order.begin(); *before != number; ++before) growth /= stages[at(*before)].group;
    for (int before = *std::min_element(order.begin(), order.end()); before < number; ++before)
        growth *= stages[at(before)].group;
    return growth;
}

std::vector<int> route_shares(const hierarchy& machine, collective what, std::span<const stage> stages,
                              std::span<const std::shared_ptr<const stage_price>> costs, bool in_one_piece) {
    const std::span<const stage> turning = dimensions_of(machine, stages);
    if (turning.empty() || !all_send(turning)) return {};
    const std::vector<int> of_order =
        hand_out(occupied_by_order(machine, what, stages, costs, turning.size(), in_one_piece));
    // All shares in the order of the stages: no routes.
    if (std::count(of_order.begin() + 1, of_order.end(), 0) + 1 == std::ssize(of_order)) return {};
    std::vector<int> shares(stages.size() - turning.size());
    shares.insert(shares.end(), of_order.begin(), of_order.end());
    return shares;
}

}  // namespace terrace::detail
