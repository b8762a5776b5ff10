#include "planner/samples.hpp"

#include <algorithm>

#include "base/index.hpp"

namespace terrace::detail {

namespace {

// Returns, by level and child, equal numbers for equal rates of links and NICs; none if all rates of a level are equal.
std::vector<std::vector<int>> marks_of(const hierarchy& machine) {
    const std::vector<double> nics = machine.nics.rank_rates();
    std::vector<std::vector<int>> marks(at(machine.depth()));
    for (int l = 0; l < machine.depth(); ++l) {
        const bool has_nics = l == 0 && !nics.empty();
        if (machine.levels[at(l)].rates.empty() && !has_nics) continue;
        std::map<std::pair<double, double>, int> known;
        for (int c = 0; c < machine.shape.members(l); ++c) {
            const std::pair rates(machine.rate(l, c), has_nics ? nics[at(c)] : 0);
            marks[at(l)].push_back(known.try_emplace(rates, static_cast<int>(known.size())).first->second);
        }
    }
    return marks;
}

}  // namespace

samples::samples(const hierarchy& machine, const link_rows& rows, int all_up_to)
    : machine_(machine),
      marks_(marks_of(machine)),
      kinds_(machine.shape, -1, marks_),
      takes_all_(machine.ranks() <= all_up_to) {
    const int top = machine.depth() - 1;
    take(top, 0, 1);
    if (ranks_.size() > at(policy.told_apart)) {
        takes_few_ = true;
        ranks_.clear(), weights_.clear();
        take(top, 0, 1);
    }
    numbers_.assign(at(machine.ranks()), none);
    for (std::size_t i = 0; i < ranks_.size(); ++i) numbers_[at(ranks_[i])] = static_cast<int>(i);
    if (ranks_.size() < at(machine.ranks())) find_shares(rows);
}

samples::alike samples::likeness_of(int level, int child) const {
    return {level > 0 ? kinds_.of(level - 1, child) : 0, marks_[at(level)].empty() ? 0 : marks_[at(level)][at(child)]};
}

void samples::take(int level, int domain, double weight) {
    if (level < 0) {
        ranks_.push_back(domain);
        weights_.push_back(weight);
        return;
    }
    const tree& t = machine_.shape;
    const int first = t.first_child(level, domain), last = t.first_child(level, domain + 1) - 1;
    const bool looks = !takes_few_ || looked_into_.emplace(level, kinds_.of(level, domain)).second;
    // Sampled children by likeness. The last one represents the others.
    std::map<alike, std::vector<int>> sampled;
    std::map<int, double> weights;  // by child
    for (int child = first; child <= last; ++child) {
        std::vector<int>& chosen = sampled[looks ? likeness_of(level, child) : alike{}];
        const bool inside = child != first && child != last;
        const bool has_inside = !chosen.empty() && chosen.back() != first;
        if (takes_all_ || chosen.empty() || (looks && (!inside || !has_inside))) chosen.push_back(child);
        weights[chosen.back()] += weight;
    }
    for (const auto& [child, w] : weights) take(level - 1, child, w);
}

double samples::weight_of(int first, int end) const {
    double weight = 0;
    for (auto i = std::ranges::lower_bound(ranks_, first); i != ranks_.end() && *i < end; ++i)
        weight += weights_[static_cast<std::size_t>(i - ranks_.begin())];
    return weight;
}

void samples::find_shares(const link_rows& rows) {
    above_.resize(at(rows.links()));
    for (int row = 0; row < rows.count(); ++row) {
        std::map<int, double> ranks, weights;  // by link: ranks below it, and weight of the samples below it
        for (std::size_t i = 0; i < ranks_.size(); ++i) weights[rows.member_of(row, ranks_[i])] += weights_[i];
        for (int rank = 0; !rows.is_level(row) && rank < machine_.ranks(); ++rank) ++ranks[rows.member_of(row, rank)];
        for (const auto& [link, weight] : weights)
            if (rows.is_level(row))
                ranks[link] = machine_.shape.first_rank(row - 1, link + 1) - machine_.shape.first_rank(row - 1, link);
        std::vector<double>& shares = shares_.emplace_back();
        for (std::size_t i = 0; i < ranks_.size(); ++i) {
            const int link = rows.member_of(row, ranks_[i]);
            shares.push_back(weights_[i] * ranks[link] / weights[link]);
            for (const bool inward : {false, true}) above_[at(rows.link(row, link, inward))] = true;
        }
    }
}

}  // namespace terrace::detail
