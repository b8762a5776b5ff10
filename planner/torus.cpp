#include "planner/torus.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/index.hpp"
#include "plan/routes.hpp"
#include "planner/policy.hpp"

namespace terrace::detail {

namespace {

// Returns, by level, the time for which a vector in this stage occupies the busiest link [s/B].
std::vector<double> busy_links(const link_rows& rows, const stage_price& s) {
    std::vector<double> busy(at(rows.nic_row()));
    for (const auto& p : s.phases)
        for (const link_use& l : p->links) {
            if (const int row = rows.row_of(l.link); rows.is_level(row))
                busy[at(row)] = std::max(busy[at(row)], l.time);
        }
    return busy;
}

// Returns the times for which a share of the vector occupies resources, by the dimension that it passes first: the
// busiest link of each level, then each route, if routes count [s/B].
std::vector<std::vector<double>> occupied_by_order(const link_rows& rows, std::span<const stage> stages,
                                                   std::span<const std::shared_ptr<const stage_price>> costs,
                                                   std::size_t dimensions, bool in_one_piece) {
    const std::size_t depth = at(rows.nic_row());
    std::vector<int> order(dimensions);
    std::iota(order.begin(), order.end(), static_cast<int>(stages.size() - dimensions));
    std::vector<std::vector<double>> occupied;
    for (std::size_t first = 0; first < dimensions; ++first) {
        std::vector<double>& sum = occupied.emplace_back(depth + dimensions);
        for (const int s : order) {
            const double growth = growth_in_order(stages, order, s);
            const std::vector<double> of_stage = busy_links(rows, *costs[at(s)]);
            for (std::size_t l = 0; l < depth; ++l) sum[l] += of_stage[l] * growth;
            for (const auto& p : costs[at(s)]->phases) sum[depth + first] += in_one_piece ? p->wire * growth : 0;
        }
        std::rotate(order.begin(), order.begin() + 1, order.end());
    }
    return occupied;
}

// Assigns one share after the other to the order that keeps the busiest resource the least busy. Returns the shares by
// order: the smallest number of shares that comes near the best.
std::vector<int> assign_shares(const std::vector<std::vector<double>>& occupied) {
    std::vector<double> so_far(occupied.front().size());
    const auto busiest_with = [&](const std::vector<double>& more) {
        double busiest = 0;
        for (std::size_t i = 0; i < so_far.size(); ++i) busiest = std::max(busiest, so_far[i] + more[i]);
        return busiest;
    };
    std::vector<int> shares(occupied.size()), best;
    double least = std::numeric_limits<double>::infinity();
    for (int n = 1; n <= policy.most_route_shares; ++n) {
        const auto next = std::ranges::min_element(occupied, {}, busiest_with);
        for (std::size_t i = 0; i < so_far.size(); ++i) so_far[i] += (*next)[i];
        ++shares[static_cast<std::size_t>(next - occupied.begin())];
        const double each = *std::max_element(so_far.begin(), so_far.end()) / n;
        if (each * policy.worth_it < least) least = each, best = shares;
    }
    return best;
}

}  // namespace

std::vector<int> route_shares(const hierarchy& machine, const link_rows& rows, std::span<const stage> stages,
                              std::span<const std::shared_ptr<const stage_price>> costs, bool in_one_piece) {
    const std::span<const stage> turning = dimensions_of(machine, stages);
    if (turning.empty() || !all_send(turning)) return {};
    const std::vector<int> of_order =
        assign_shares(occupied_by_order(rows, stages, costs, turning.size(), in_one_piece));
    // All shares in the order of the stages mean no routes.
    if (std::count(of_order.begin() + 1, of_order.end(), 0) + 1 == std::ssize(of_order)) return {};
    std::vector<int> shares(stages.size() - turning.size());
    shares.insert(shares.end(), of_order.begin(), of_order.end());
    return shares;
}

}  // namespace terrace::detail
