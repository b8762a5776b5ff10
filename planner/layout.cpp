#include "planner/layout.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/index.hpp"
#include "planner/policy.hpp"

namespace terrace::detail {

namespace {

constexpr double same_place = 1e-11;

bool is_split(const hierarchy& machine, const stage& s, int within) {
    return s.levels.size() == 1 && s.group > 0 &&
           (within > 1 || machine.shape.uniform_size(s.levels.front()).value_or(s.group) != s.group);
}

void join(std::vector<double>& cuts, const std::vector<double>& more) {
    const auto middle = static_cast<std::ptrdiff_t>(cuts.size());
    cuts.insert(cuts.end(), more.begin(), more.end());
    std::inplace_merge(cuts.begin(), cuts.begin() + middle, cuts.end());
    const auto same = [](double a, double b) { return b - a < same_place; };
    cuts.erase(std::unique(cuts.begin(), cuts.end(), same), cuts.end());
}

}  // namespace

double layout::scattered_before(int position, int positions) const {
    if (shares.empty()) return static_cast<double>(position) / positions;
    const auto upto = [&](int end) { return std::accumulate(shares.begin(), shares.begin() + end, 0.0); };
    return upto(position) / upto(static_cast<int>(shares.size()));
}

std::string key_of_layout(std::span<const stage> stages) {
    std::string key;
    for (const stage& s : stages)
        key += fmt::format("{}-{}:{}:{}:{}:{};", s.levels.front(), s.levels.back(), s.group, static_cast<int>(s.how),
                           s.route_share, fmt::join(s.shares, ":"));
    return key;
}

sampler::sampler(const hierarchy& machine, int all_up_to)
    : machine_(machine),
      rows_(machine),
      nic_rates_(machine.nics.rank_rates()),
      takes_all_(machine.ranks() <= all_up_to) {
    const tree& t = machine.shape;
    for (int l = 0; l < t.depth(); ++l) {
        std::vector<int>& kinds = kind_.emplace_back();
        for (int d = 0; d < t.domains(l); ++d) {
            std::vector<int> parts{-t.children(0, d)};
            if (l > 0) {
                const auto first = kind_[at(l - 1)].begin() + t.first_child(l, d);
                parts.assign(first, first + t.children(l, d));
            }
            // Links of other rates make other kinds.
            for (int c = t.first_child(l, d); !machine.levels[at(l)].rates.empty() && c < t.first_child(l, d + 1); ++c)
                parts.push_back(-1 - rate_number(machine.rate(l, c)));
            // So do NICs.
            for (int c = t.first_child(l, d); l == 0 && !machine.nics.empty() && c < t.first_child(l, d + 1); ++c)
                parts.push_back(-1 - rate_number(nic_share(c)));
            kinds.push_back(kind_of(std::move(parts)));
        }
    }
    sample(t.depth() - 1, 0, 1);
    if (ranks_.size() <= static_cast<std::size_t>(policy.told_apart)) return;
    takes_few_ = true;
    ranks_.clear(), weights_.clear();
    sample(t.depth() - 1, 0, 1);
}

double sampler::nic_share(int rank) const { return nic_rates_.empty() ? 0 : nic_rates_[at(rank)]; }

int sampler::rate_number(double rate) {
    return rates_.try_emplace(rate, static_cast<int>(rates_.size())).first->second;
}

int sampler::kind_of(std::vector<int> children) {
    return kinds_.try_emplace(std::move(children), static_cast<int>(kinds_.size()) + 1).first->second;
}

void sampler::sample(int level, int domain, double weight) {
    if (level < 0) {
        ranks_.push_back(domain);
        weights_.push_back(weight);
        return;
    }
    const tree& t = machine_.shape;
    const int first = t.first_child(level, domain), last = t.first_child(level, domain + 1) - 1;
    const bool looks = !takes_few_ || looked_into_.emplace(level, kind_[at(level)][at(domain)]).second;
    // The children that are sampled, by kind and rates; the last of them for the others.
    std::map<std::tuple<int, double, double>, std::vector<int>> alike;
    std::map<int, double> weights;  // by child
    for (int child = first; child <= last; ++child) {
        const int kind = level == 0 ? 0 : kind_[at(level - 1)][at(child)];
        std::vector<int>& chosen =
            alike[looks ? std::tuple(kind, machine_.rate(level, child), level == 0 ? nic_share(child) : 0.0)
                        : std::tuple(0, 0.0, 0.0)];
        const bool inside = child != first && child != last;
        const bool has_inside = !chosen.empty() && chosen.back() != first;
        if (takes_all_ || chosen.empty() || (looks && (!inside || !has_inside))) chosen.push_back(child);
        weights[chosen.back()] += weight;
    }
    for (const auto& [child, w] : weights) sample(level - 1, child, w);
}

int sampler::child_begin(const layout& l, int height, int domain) const {
    const layout::tier& r = l.tiers[at(height)];
    return r.group > 0 ? domain * r.group : machine_.shape.first_child(r.level, domain);
}

std::pair<int, int> sampler::positions_of(const layout& l, int domain) const {
    int begin = domain, end = domain + 1;
    for (int h = l.to; h-- > l.from;) {
        begin = child_begin(l, h, begin);
        end = child_begin(l, h, end);
    }
    return {begin, end};
}

int sampler::domain_at(const layout& l, int height, int rank) const {
    if (height == static_cast<int>(l.tiers.size()) && l.tiers.back().group == 0)
        return machine_.shape.domain_of(l.tiers.back().level, rank);
    if (height == static_cast<int>(l.tiers.size())) return domain_at(l, height - 1, rank) / l.tiers.back().group;
    const layout::tier& r = l.tiers[at(height)];
    return machine_.shape.domain_of(r.level - 1, rank) / r.within;
}

std::vector<int> sampler::unequal_positions(const layout& l) const {
    const sample_place& any = l.places.front();
    if (any.positions > policy.told_apart || domain_at(l, l.to, machine_.ranks() - 1) != 0) return {};
    std::vector<int> ranks;
    for (int p = 0; p < any.positions; ++p) {
        const int end = p + 1 < any.positions ? first_rank(l, l.from, p + 1) : machine_.ranks();
        ranks.push_back(end - first_rank(l, l.from, p));
    }
    const bool equal = std::adjacent_find(ranks.begin(), ranks.end(), std::not_equal_to<>()) == ranks.end();
    return equal ? std::vector<int>{} : ranks;
}

int sampler::first_rank(const layout& l, int height, int domain) const {
    const layout::tier& r = l.tiers[at(height)];
    return machine_.shape.first_rank(r.level - 1, domain * r.within);
}

int sampler::kind_of(const layout& l, int height, int domain) {
    const bool top = height == static_cast<int>(l.tiers.size());
    const layout::tier& r = l.tiers[at(top ? height - 1 : height)];
    if (top ? r.group == 0 : r.within == 1) {
        const int level = top ? r.level : r.level - 1;
        return level < 0 ? 0 : kind_[at(level)][at(domain)];
    }
    std::vector<int> children;
    const int begin = child_begin(l, height - 1, domain), end = child_begin(l, height - 1, domain + 1);
    for (int c = begin; c < end; ++c) children.push_back(kind_of(l, height - 1, c));
    return kind_of(std::move(children));
}

void sampler::add_tiers(layout& l, const stage& s) const {
    const bool goes_on = !l.tiers.empty() && l.tiers.back().level == s.levels.front();
    const int within = goes_on ? l.tiers.back().within * l.tiers.back().group : 1;
    l.from = static_cast<int>(l.tiers.size());
    if (is_split(machine_, s, within)) l.tiers.push_back({s.levels.front(), within, s.group});
    else
        for (const int level : s.levels) l.tiers.push_back({level, 1, 0});
    l.to = static_cast<int>(l.tiers.size());
    l.how = s.how;
    l.shares = s.shares;
}

const layout& sampler::lay_out(std::span<const stage> stages) { return make(stages).what; }

sampler::laid_out& sampler::make(std::span<const stage> stages) {
    const auto [known, is_new] = known_.try_emplace(key_of_layout(stages));
    laid_out& made = known->second;
    if (!is_new) return made;
    if (stages.size() > 1) made.before = &make(stages.first(stages.size() - 1));
    if (made.before != nullptr) made.what.tiers = made.before->what.tiers, made.what.before = &made.before->what;
    add_tiers(made.what, stages.back());
    made.has_cuts = stages.back().how == mode::scatter || (made.before != nullptr && made.before->has_cuts);
    for (std::size_t i = 0; i < ranks_.size(); ++i) put(made, i);
    for (laid_out* l = &made; l != nullptr; l = l->before) l->forget_cuts();
    return made;
}

sample_place sampler::stand(const laid_out& l, std::size_t sample) const {
    const int rank = ranks_[sample];
    const layout& w = l.what;
    sample_place p;
    p.domain = domain_at(w, w.to, rank);
    const auto [begin, end] = positions_of(w, p.domain);
    p.first = begin;
    p.positions = end - begin;
    p.position = domain_at(w, w.from, rank) - begin;
    for (int h = w.from + 1; h < w.to; ++h) {
        int low = domain_at(w, h, rank), high = low + 1;
        for (int below = h; below-- > w.from;) low = child_begin(w, below, low), high = child_begin(w, below, high);
        p.blocks.push_back({low - begin, high - low});
    }
    p.below = l.before == nullptr ? std::vector{1.0} : l.before->weight[sample];
    p.share = p.below.front();
    if (uses_nics(w)) p.nic = on_nic_of(w, rank, begin);
    return p;
}

double sampler::share_before(const layout& l, int rank) const {
    double share = 1;
    for (const layout* w = l.before; w != nullptr; w = w->before) {
        if (w->how == mode::replicate) continue;
        const auto [begin, end] = positions_of(*w, domain_at(*w, w->to, rank));
        const int position = domain_at(*w, w->from, rank) - begin;
        if (w->how == mode::scatter) share *= w->scattered_to({position, 1}, end - begin);
        else if (position != 0) return 0;
    }
    return share;
}

std::vector<sample_place::on_nic> sampler::on_nic_of(const layout& l, int rank, int first_position) const {
    std::vector<sample_place::on_nic> result;
    const int node = machine_.node_levels() - 1, nic = machine_.nics.of(rank),
              domain = machine_.shape.domain_of(node, rank);
    for (int r = machine_.shape.first_rank(node, domain); r < machine_.shape.first_rank(node, domain + 1); ++r) {
        if (machine_.nics.of(r) != nic) continue;
        const int position = domain_at(l, l.from, r) - first_position;
        if (result.empty() || result.back().position != position) result.push_back({position, 0});
        result.back().vectors += share_before(l, r);
    }
    return result;
}

std::vector<std::pair<int, double>> sampler::nics_of(const layout& l, int position) const {
    std::vector<std::pair<int, double>> result;
    const bool is_last = position == domain_at(l, l.from, machine_.ranks() - 1);
    const int end = is_last ? machine_.ranks() : first_rank(l, l.from, position + 1);
    for (int r = first_rank(l, l.from, position); r < end; ++r) {
        const int nic = machine_.nics.of(r);
        if (result.empty() || result.back().first != nic) result.emplace_back(nic, 0);
        result.back().second += share_before(l, r);
    }
    return result;
}

// Cuts what the rank holds where the owners of any sibling's part change.
std::vector<std::pair<double, double>> sampler::pieces_of(laid_out& l, std::size_t sample, const sample_place& p) {
    const cuts* others = p.share > 0 ? mixed_cuts(l, p.domain) : nullptr;
    if (l.before == nullptr) return {{0, 1}};
    if (others == nullptr) return l.before->held[sample];
    std::vector<std::pair<double, double>> held;
    for (auto [low, high] : l.before->held[sample]) {
        for (auto cut = std::upper_bound(others->begin(), others->end(), low + same_place);
             cut != others->end() && *cut < high - same_place; ++cut) {
            held.emplace_back(low, *cut);
            low = *cut;
        }
        held.emplace_back(low, high);
    }
    return held;
}

// Returns the vectors that the rank's domain of each height holds after the stage.
std::vector<double> sampler::weight_after(const layout& w, const sample_place& p) {
    std::vector<double> weight = p.below;
    const double whole = weight.back(), own = w.scattered_to({p.position, 1}, p.positions);
    const bool is_root = p.position == 0;
    for (double& each : weight) each = w.how == mode::scatter ? each * own : w.how == mode::root && !is_root ? 0 : each;
    const auto add_block = [&](const sample_place::block& b) {
        weight.push_back(w.how == mode::scatter ? whole * w.scattered_to(b, p.positions)
                         : w.how == mode::root  ? (b.first == 0 ? whole : 0)
                                                : whole * b.positions);
    };
    for (const sample_place::block& b : p.blocks) add_block(b);
    add_block({0, p.positions});
    return weight;
}

void sampler::put(laid_out& l, std::size_t sample) {
    sample_place p = stand(l, sample);
    std::vector<std::pair<double, double>> held = pieces_of(l, sample, p);
    p.pieces = static_cast<double>(held.size());
    p.largest = 0;
    for (const auto& [low, high] : held) p.largest = std::max(p.largest, high - low);
    if (l.what.how == mode::scatter)
        for (auto& [low, high] : held) {
            const double all = high - low, first = low;
            low = first + all * l.what.scattered_before(p.position, p.positions);
            high = first + all * l.what.scattered_before(p.position + 1, p.positions);
        }
    if (l.what.how == mode::root && p.position > 0) held.clear();
    l.held.push_back(std::move(held));
    l.weight.push_back(weight_after(l.what, p));
    l.what.places.push_back(std::move(p));
}

const sampler::cuts* sampler::mixed_cuts(laid_out& l, int domain) {
    if (l.before == nullptr || !l.before->has_cuts) return nullptr;
    const auto [known, is_new] = l.mixed.try_emplace(domain, nullptr);
    if (!is_new) return known->second;
    std::map<int, int> kinds;  // of the positions, and one of each
    const auto [begin, end] = positions_of(l.what, domain);
    for (int p = begin; p < end; ++p) kinds.try_emplace(kind_of(l.what, l.what.from, p), p);
    if (kinds.size() == 1) return nullptr;
    const auto [joint, is_first] = l.joint.try_emplace(kind_of(l.what, l.what.to, domain));
    if (is_first)
        for (const auto& [kind, p] : kinds) join(joint->second, cuts_after(*l.before, p));
    return l.mixed[domain] = &joint->second;
}

const sampler::cuts& sampler::cuts_after(laid_out& l, int domain) {
    const auto [known, is_new] = l.after.try_emplace(kind_of(l.what, l.what.to, domain));
    cuts& made = known->second;
    if (!is_new) return made;
    const auto [begin, end] = positions_of(l.what, domain);
    const cuts whole{0, 1};
    const cuts* before = mixed_cuts(l, domain);
    if (before == nullptr) before = l.before == nullptr ? &whole : &cuts_after(*l.before, begin);
    if (l.what.how != mode::scatter) return made = *before;
    const int parts = end - begin;
    for (std::size_t i = 0; i + 1 < before->size(); ++i)
        for (int part = 0; part < parts; ++part)
            made.push_back((*before)[i] + ((*before)[i + 1] - (*before)[i]) * l.what.scattered_before(part, parts));
    made.push_back(1);
    return made;
}

}  // namespace terrace::detail
