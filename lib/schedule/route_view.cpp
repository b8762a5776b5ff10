#include "schedule/route_view.hpp"

#include <algorithm>
#include <utility>

namespace terrace::detail {

namespace {

// Returns, by level, the shares that make domains differ.
std::vector<std::vector<int>> shares_by_child(const tree& shape, const std::vector<int>& order,
                                              std::span<const stage> stages) {
    std::vector<std::vector<int>> shares;
    for (int l = 0; l < shape.depth(); ++l) {
        const stage& s = stages[at(order[at(l)])];
        shares.push_back(has_shares_by_domain(s, shape, l) ? s.shares : std::vector<int>());
    }
    return shares;
}

}  // namespace

route_view::route_view(tree shape, std::vector<int> order, std::vector<int> plan_ranks,
                       const composition_request& asked)
    : shape_(std::move(shape)),
      order_(std::move(order)),
      plan_ranks_(std::move(plan_ranks)),
      root_(seen(asked.root)),
      kinds_(shape_, root_, shares_by_child(shape_, order_, asked.stages)) {
    for (const int rank : asked.ranks) ranks_.push_back(seen(rank));
    std::ranges::sort(ranks_);
}

route_view route_view::in_plan_order(tree whole, const composition_request& asked) {
    std::vector<int> order = numbers_below(whole.depth());
    return {std::move(whole), std::move(order), {}, asked};
}

route_view route_view::turned(const tree& whole, const std::vector<int>& outer, const composition_request& asked) {
    std::vector<int> order = numbers_below(whole.depth() - static_cast<int>(outer.size()));
    order.insert(order.end(), outer.begin(), outer.end());
    std::vector<int> stride(order.size(), 1);  // by stage: distance in the plan of ranks that are neighbours in it
    for (std::size_t s = 1; s < stride.size(); ++s)
        stride[s] = stride[s - 1] * whole.children(static_cast<int>(s) - 1, 0);
    std::vector<int> sizes, plan_ranks{0};
    for (const int s : order) {
        sizes.push_back(whole.children(s, 0));
        const std::size_t inner = plan_ranks.size();
        for (int i = 1; i < sizes.back(); ++i)
            for (std::size_t r = 0; r < inner; ++r) plan_ranks.push_back(plan_ranks[r] + i * stride[at(s)]);
    }
    return {tree::uniform(sizes), std::move(order), std::move(plan_ranks), asked};
}

}  // namespace terrace::detail
