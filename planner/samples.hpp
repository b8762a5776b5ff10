#pragma once

#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "machine/likeness.hpp"
#include "machine/link_rows.hpp"
#include "planner/policy.hpp"

namespace terrace::detail {

/// Ranks that stand for all others. Domains of equal shape and rates are alike, wherever they are: of the children of
/// each domain the first, the last and one more of every kind among them stand for the others. Where that makes many
/// samples (planner_policy::told_apart), all but the first domain of each kind have one rank only.
class samples {
public:
    /// @param all_up_to all ranks of machines up to this size are samples
    samples(const hierarchy& machine, const link_rows& rows, int all_up_to = policy.told_apart);

    std::span<const int> ranks() const noexcept { return ranks_; }         ///< ascending
    std::span<const double> weights() const noexcept { return weights_; }  ///< ranks that each stands for
    std::size_t count() const noexcept { return ranks_.size(); }
    /// Returns the sample of a rank; none of those that a sample stands for.
    static constexpr int none = -1;
    int of(int rank) const noexcept { return numbers_[static_cast<std::size_t>(rank)]; }
    /// Returns how many of the ranks above which a row has one link the sample stands for, itself included.
    double share_of_link(std::size_t sample, int row) const noexcept {
        return shares_.empty() ? 1 : shares_[static_cast<std::size_t>(row)][sample];
    }

    /// Returns how many ranks the samples among some consecutive ranks stand for.
    double weight_of(int first, int end) const;
    /// Returns true if a sample's messages leave by a link, which then has all that its samples stand for.
    bool are_above(int link) const noexcept { return shares_.empty() || above_[static_cast<std::size_t>(link)]; }

private:
    void take(int level, int domain, double weight);
    void find_shares(const link_rows& rows);
    // Equal for children of a level that are alike: their kind, and the mark of their link.
    using alike = std::pair<int, int>;
    alike likeness_of(int level, int child) const;

    const hierarchy& machine_;
    std::vector<std::vector<int>> marks_;  // by level and child
    likeness kinds_;
    bool takes_all_;
    bool takes_few_ = false;
    std::set<std::pair<int, int>> looked_into_;  // by level and kind
    std::vector<int> ranks_, numbers_;
    std::vector<double> weights_;
    std::vector<std::vector<double>> shares_;  // by row and sample; empty where all ranks are samples
    std::vector<bool> above_;                  // by link
};

}  // namespace terrace::detail
