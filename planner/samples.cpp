#include "planner/samples.hpp"

#include <algorithm>

#include "base/index.hpp"

namespace terrace::detail {

samples::samples(const hierarchy& machine, const link_rows& rows, int all_up_to)
    : machine_(machine), nic_rates_(machine.nics.rank_rates()), takes_all_(machine.ranks() <= all_up_to) {
    find_kinds();
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
    if (level > 0) return {kind_[at(level - 1)][at(child)], machine_.rate(level, child), 0};
    return {0, machine_.rate(level, child), nic_rates_.empty() ? 0 : nic_rates_[at(child)]};
}

void samples::find_kinds() {
    const tree& t = machine_.shape;
    for (int l = 0; l < t.depth(); ++l) {
        std::map<std::vector<alike>, int> kinds;
        std::vector<int>& of_level = kind_.emplace_back();
        for (int d = 0; d < t.domains(l); ++d) {
            std::vector<alike> parts;
            for (int c = t.first_child(l, d); c < t.first_child(l, d + 1); ++c) parts.push_back(likeness_of(l, c));
            of_level.push_back(kinds.try_emplace(std::move(parts), static_cast<int>(kinds.size())).first->second);
        }
    }
}

void samples::take(int level, int domain, double weight) {
    if (level < 0) {
        ranks_.push_back(domain);
        weights_.push_back(weight);
        return;
    }
    const tree& t = machine_.shape;
    const int first = t.first_child(level, domain), last = t.first_child(level, domain + 1) - 1;
    const bool looks = !takes_few_ || looked_into_.emplace(level, kind_[at(level)][at(domain)]).second;
    // The children that are sampled, by what makes them alike; the last of them for the others.
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
        std::map<int, double> ranks, weights;  // of links above samples
        for (std::size_t i = 0; i < ranks_.size(); ++i) weights[rows.member_of(row, ranks_[i])] += weights_[i];
        for (int rank = 0; rank < machine_.ranks(); ++rank)
            if (const auto link = weights.find(rows.member_of(row, rank)); link != weights.end()) ++ranks[link->first];
        std::vector<double>& shares = shares_.emplace_back();
        for (std::size_t i = 0; i < ranks_.size(); ++i) {
            const int link = rows.member_of(row, ranks_[i]);
            shares.push_back(weights_[i] * ranks[link] / weights[link]);
            for (const bool inward : {false, true}) above_[at(rows.link(row, link, inward))] = true;
        }
    }
}

}  // namespace terrace::detail
