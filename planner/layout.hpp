#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan_data.hpp"
#include "planner/link_rows.hpp"
#include "planner/policy.hpp"

namespace terrace::detail {

/// Where a sampled rank stands in one stage: the domain that moves data among its positions, the position that the rank
/// is in, and the part of the vector that it holds.
struct sample_place {
    int domain = 0;      ///< of the stage, counted over the machine
    int first = 0;       ///< position 0 of the domain, counted over the machine
    int positions = 1;   ///< of the domain
    int position = 0;    ///< of the rank in the domain
    double share = 1;    ///< of the vector, held when the stage begins; 0: the rank takes no part
    double pieces = 1;   ///< consecutive parts of that with other owners elsewhere: groups that the rank is a member of
    double largest = 1;  ///< of the pieces, of the vector
    std::vector<double> below;  ///< vectors held together by the rank's domain at each height up to its position's
    /// Consecutive positions.
    struct block {
        int first = 0, positions = 1;
    };
    /// Ranks that leave the node by the sampled rank's NIC, in one position.
    struct on_nic {
        int position = 0;
        double vectors = 0;  ///< that they hold together
    };
    std::vector<on_nic> nic = {};  ///< by position; empty where the file has no NICs, or the stage stays in a node
    std::vector<block> blocks;     ///< positions under the rank's domain at each height above its position's
};

/// Stages over a machine, as far as prices depend on them and not on their algorithms. Heights count the nested domains
/// that the stages see, from the ranks (0) to the machine; the parts of a split level are among them.
struct layout {
    /// What joins domains of one height.
    struct tier {
        int level = 0;   ///< of the machine
        int within = 1;  ///< children of the level in one domain of this height: several between parts of a split level
        int group = 0;   ///< domains of this height in one of the next, where the level is split; else 0
        bool linked() const noexcept { return within == 1; }  ///< domains of this height have links of their own
    };
    std::vector<tier> tiers;  ///< by height
    int from = 0, to = 0;     ///< heights of the last stage's positions and of its domains
    mode how = mode::scatter;
    std::vector<int> shares = {};      ///< stage::shares of the last stage
    const layout* before = nullptr;    ///< of the stages before the last one
    std::vector<sample_place> places;  ///< in the last stage, by sample

    /// Returns how much of its data a domain of the last stage has scattered once a position has its part: from 0,
    /// before position 0, to 1.
    double scattered_before(int position, int positions) const;
    /// Returns the part of a domain's data that consecutive positions get in mode scatter.
    double scattered_to(const sample_place::block& b, int positions) const {
        return scattered_before(b.first + b.positions, positions) - scattered_before(b.first, positions);
    }
};

/// Returns the same text for stages with the same layout, and for no others.
std::string key_of_layout(std::span<const stage> stages);

/// Ranks that stand for all others, and where stages put them. Domains of equal shape are alike, wherever they are: of
/// the children of each domain the first, the last and one more of every shape among them stand for the others. Where
/// that makes many samples (planner_policy::told_apart), all but the first domain of each shape have one rank only.
class sampler {
public:
    /// @param all_up_to all ranks of machines up to this size are samples
    explicit sampler(const hierarchy& machine, int all_up_to = policy.told_apart);

    std::span<const int> ranks() const noexcept { return ranks_; }
    std::span<const double> weights() const noexcept { return weights_; }  ///< ranks that each stands for
    /// Returns where the samples stand in the last of the stages.
    const layout& lay_out(std::span<const stage> stages);

    /// Returns the number of ranks in each position of a last stage that has one domain, if these numbers differ and
    /// positions are few enough to be told apart (planner_policy::told_apart); else nothing.
    std::vector<int> unequal_positions(const layout& l) const;
    /// Returns the domain of a height that holds a rank, counted over the machine.
    int domain_at(const layout& l, int height, int rank) const;
    /// Returns the first rank of a domain of a height.
    int first_rank(const layout& l, int height, int domain) const;
    /// Returns the part of the vector that a rank holds when the last stage begins.
    double share_before(const layout& l, int rank) const;
    /// Returns true if some messages of the last stage leave their node by a NIC.
    bool uses_nics(const layout& l) const {
        return rows_.passes_nic(l.tiers[static_cast<std::size_t>(l.to - 1)].level);
    }
    /// The NICs by which the ranks of a position leave their node, and the vectors that they hold together.
    std::vector<std::pair<int, double>> nics_of(const layout& l, int position) const;
    const link_rows& rows() const noexcept { return rows_; }

private:
    using cuts = std::vector<double>;  // of the vector, between pieces of different owners; 0 and 1 included
    struct laid_out {
        layout what;
        laid_out* before = nullptr;  // all stages but the last
        // After the last stage:
        std::vector<std::vector<std::pair<double, double>>> held;  // pieces, by sample
        std::vector<std::vector<double>> weight;                   // vectors, by sample and height
        std::map<int, cuts> after;                                 // by kind of domain
        std::map<int, const cuts*> mixed;  // cuts of the positions of a domain, by domain; null where they are alike
        std::map<int, cuts> joint;         // those, by kind of domain
        bool has_cuts = false;

        void forget_cuts() { after.clear(), mixed.clear(), joint.clear(); }  // long, and soon made again
    };

    void sample(int level, int domain, double weight);
    laid_out& make(std::span<const stage> stages);
    void add_tiers(layout& l, const stage& s) const;
    void put(laid_out& l, std::size_t sample);
    sample_place stand(const laid_out& l, std::size_t sample) const;
    std::vector<std::pair<double, double>> pieces_of(laid_out& l, std::size_t sample, const sample_place& p);
    static std::vector<double> weight_after(const layout& w, const sample_place& p);
    int child_begin(const layout& l, int height, int domain) const;
    std::pair<int, int> positions_of(const layout& l, int domain) const;
    int kind_of(std::vector<int> children);
    int rate_number(double rate);
    int kind_of(const layout& l, int height, int domain);  // equal for domains of equal shape
    const cuts* mixed_cuts(laid_out& l, int domain);
    const cuts& cuts_after(laid_out& l, int domain);

    double nic_share(int rank) const;  // 0 without NICs
    std::vector<sample_place::on_nic> on_nic_of(const layout& l, int rank, int first_position) const;

    const hierarchy& machine_;
    link_rows rows_;
    std::vector<double> nic_rates_;          // nic_set::rank_rates
    std::map<std::vector<int>, int> kinds_;  // by those of the children
    std::map<double, int> rates_;            // numbered
    std::vector<std::vector<int>> kind_;     // of each domain of each level
    bool takes_all_;
    bool takes_few_ = false;
    std::set<std::pair<int, int>> looked_into_;  // by level and kind
    std::vector<int> ranks_;
    std::vector<double> weights_;
    std::map<std::string, laid_out> known_;  // by stages, whatever their algorithms
};

}  // namespace terrace::detail
