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

/// Ranks that represent all other ranks. Domains of equal shape and rates are alike, wherever they are. Among the
/// children of each domain, the first, the last and one more of every kind represent the others. If this makes too many
/// samples (planner_policy::told_apart), all but the first domain of each kind have only one.
class samples {
public:
    /// @param all_up_to all ranks of machines up to this size are samples
    samples(const hierarchy& machine, const link_rows& rows, int all_up_to = policy.told_apart);

    std::span<const int> ranks() const noexcept { return ranks_; }         ///< ascending
    std::span<const double> weights() const noexcept { return weights_; }  ///< ranks that each sample represents
    std::size_t count() const noexcept { return ranks_.size(); }
    /// Index of ranks that are no samples. of() returns the index of a rank's sample.
    static constexpr int none = -1;
    int of(int rank) const noexcept { return numbers_[static_cast<std::size_t>(rank)]; }
    /// Returns the number of ranks below the link that the sample represents, itself included. The link is of this row.
    double share_of_link(std::size_t sample, int row) const noexcept {
        return shares_.empty() ? 1 : shares_[static_cast<std::size_t>(row)][sample];
    }

    /// Returns the number of ranks that the samples in [first, end) represent.
    double weight_of(int first, int end) const;
    /// Returns true if samples use the link. The link then has the load of all ranks that its samples represent.
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
    std::set<std::pair<int, int>> looked_into_;  // (level, kind) of domains sampled in full
    std::vector<int> ranks_, numbers_;
    std::vector<double> weights_;
    std::vector<std::vector<double>> shares_;  // by row and sample; empty if all ranks are samples
    std::vector<bool> above_;                  // by link
};

}  // namespace terrace::detail
