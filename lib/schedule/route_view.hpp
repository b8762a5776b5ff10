#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/index.hpp"
#include "machine/likeness.hpp"
#include "plan/plan_data.hpp"

namespace terrace::detail {

/// The arguments of a composition.
struct composition_request {
    std::span<const stage> stages;
    std::int64_t count = 0, quantum = 1;
    int root = -1;                    ///< -1: none
    std::span<const int> ranks = {};  ///< ranks whose groups are wanted; empty: all ranks
    std::span<const int> tree = {};   ///< as in collective_call
    bool only_groups = false;         ///< groups without algorithms and steps: stages need no algorithms

    bool for_all() const noexcept { return ranks.empty(); }
};

/// A machine with its stages in the order of one route. Ranks are numbered in that order: neighbours in the first stage
/// are consecutive. Immutable.
class route_view {
public:
    /// Returns the machine with its stages in the order of the plan.
    static route_view in_plan_order(tree whole, const composition_request& asked);
    /// Returns the machine with reordered last stages. @param whole of even domains   @param outer their numbers
    static route_view turned(const tree& whole, const std::vector<int>& outer, const composition_request& asked);

    /// Returns the machine as a tree with a level for each stage.
    const tree& shape() const noexcept { return shape_; }
    /// Returns the kind of a domain, an equal number for domains of a level that are alike.
    int kind_of(int level, int domain) const noexcept { return kinds_.of(level, domain); }
    /// Returns one domain of each kind, ascending.
    const std::vector<int>& first_of_kinds(int level) const noexcept { return kinds_.firsts(level); }
    /// Returns the number of a level's stage in the plan.
    int stage_of(int level) const noexcept { return order_[at(level)]; }
    /// Returns the requested ranks in the view's numbering, ascending; empty: all.
    const std::vector<int>& ranks() const noexcept { return ranks_; }
    /// Returns the root of the call in the view's numbering; -1: none.
    int root() const noexcept { return root_; }
    /// Returns the plan's number of a rank of the view.
    int plan_rank(int rank) const noexcept { return plan_ranks_.empty() ? rank : plan_ranks_[at(rank)]; }
    /// Returns the plan's numbers of all ranks of the view; empty if the numberings are the same.
    const std::vector<int>& plan_ranks() const noexcept { return plan_ranks_; }

private:
    route_view(tree shape, std::vector<int> order, std::vector<int> plan_ranks, const composition_request& asked);

    int seen(int plan_rank) const {
        return plan_rank < 0 || plan_ranks_.empty() ? plan_rank : position_of(plan_rank, plan_ranks_);
    }

    tree shape_;
    std::vector<int> order_;  // stages, innermost first
    std::vector<int> plan_ranks_;
    std::vector<int> ranks_;
    int root_;
    likeness kinds_;
};

}  // namespace terrace::detail
