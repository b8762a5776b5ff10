#include "bench/discover/switches.hpp"

#include <algorithm>
#include <optional>
#include <queue>
#include <tuple>

#include "base/index.hpp"
#include "bench/discover/hypothesis.hpp"

namespace terrace::detail::bench {

namespace {

constexpr double noticeable = 0.1;         // relative change of a rate
constexpr double price_of_group = 0.15;    // misfit that a group has to explain
constexpr double unslowed = 0.9;           // least fraction of the expected rate if nothing slows a stream
constexpr double slower_link = 0.8;        // largest fraction of its members' total rate that a slower link has
constexpr std::size_t fewest_changed = 3;  // streams
constexpr std::size_t least_part = 50;     // at least one of so many streams changes
constexpr double least_gain = 1e-6;        // smaller gains are rounding errors
constexpr std::size_t most_joined = 32;    // items of which all pairs are evaluated: 64 take 30 s

// Returns the lowest number that no group has.
int lowest_unused(const std::vector<int>& groups) {
    int number = 0;
    while (std::find(groups.begin(), groups.end(), number) != groups.end()) ++number;
    return number;
}

// The result of a search for a level.
struct new_level {
    grouping groups;
    double gain = 0;        // by which the misfit is reduced
    double confidence = 0;  // fraction of the misfit of slowed streams that it explains
};

// Searches for a level that joins groups of levels[below] (the items) inside groups of the level after it.
class level_search {
public:
    level_search(const std::vector<observation>& seen, const groupings& levels, std::size_t below)
        : seen_(seen), levels_(levels), below_(below), before_(seen, levels) {
        const grouping& items = levels[below];
        parent_.assign(at(items.count), 0);
        if (below + 1 < levels.size())
            for (std::size_t n = 0; n < items.of.size(); ++n) parent_[at(items.of[n])] = levels[below + 1].of[n];
    }

    // Returns groups that explain more than they cost, if there are any.
    std::optional<new_level> find() const {
        if (parent_.size() < 3) return {};
        std::optional<std::pair<std::vector<int>, double>> best;
        std::vector<std::vector<int>> starts{never_slowed()};
        if (parent_.size() <= most_joined) starts.push_back(numbers_below(levels_[below_].count));
        for (std::vector<int>& start : starts) {
            const double cost = climb(start);
            if (!best || cost < best->second - 1e-9) best = {std::move(start), cost};
        }
        std::vector<int> groups = with_the_rest(without_hidden(std::move(best->first)));
        grouping found = of_nodes(groups);
        if (found.count == levels_[below_].count) return {};
        const hypothesis after(seen_, inserted(found));
        const auto part = explained(before_, after, before_.off().size());
        if (!part) return {};
        return new_level{std::move(found), before_.misfit() - after.misfit(), *part};
    }

private:
    groupings inserted(const grouping& g) const {
        groupings all = levels_;
        all.insert(all.begin() + static_cast<std::ptrdiff_t>(below_) + 1, g);
        return all;
    }

    grouping of_nodes(const std::vector<int>& groups) const {
        return grouping{groups, static_cast<int>(groups.size())}.of_things(levels_[below_]);
    }

    double cost(const std::vector<int>& groups) const {
        std::vector<int> sizes(groups.size());
        for (const int g : groups) ++sizes[at(g)];
        const auto shared = std::count_if(sizes.begin(), sizes.end(), [](int n) { return n > 1; });
        return hypothesis(seen_, inserted(of_nodes(groups))).misfit() + price_of_group * static_cast<double>(shared);
    }

    // Joins items if no stream between them is slower than expected: streams inside a group do not cross its link.
    std::vector<int> never_slowed() const {
        const std::size_t n = parent_.size();
        std::vector<std::vector<std::vector<double>>> parts(n, std::vector<std::vector<double>>(n));
        for (std::size_t o = 0; o < seen_.size(); ++o)
            for (std::size_t s = 0; s < seen_[o].rates.size(); ++s) {
                const stream& between = seen_[o].between[s];
                const auto a = at(levels_[below_].of[at(between.from)]), b = at(levels_[below_].of[at(between.to)]);
                parts[std::min(a, b)][std::max(a, b)].push_back(seen_[o].rates[s] / before_.rates()[o][s]);
            }
        std::vector<std::vector<bool>> near(n, std::vector<bool>(n));
        for (std::size_t a = 0; a < n; ++a)
            for (std::size_t b = a; b < n; ++b) {
                std::vector<double>& all = parts[a][b];
                std::sort(all.begin(), all.end());
                const std::size_t stray = all.size() >= 6 ? 1 : 0;
                near[a][b] = near[b][a] =
                    a == b || (parent_[a] == parent_[b] && !all.empty() && all[stray] >= unslowed);
            }
        std::vector<int> groups(n, -1);
        for (std::size_t a = 0; a < n; ++a) {
            if (groups[a] >= 0) continue;
            groups[a] = static_cast<int>(a);
            for (std::size_t b = a + 1; b < n; ++b) {
                if (groups[b] >= 0 || !near[a][b]) continue;
                std::size_t both = 0, either = 0;
                for (std::size_t c = 0; c < n; ++c) {
                    both += near[a][c] && near[b][c];
                    either += near[a][c] || near[b][c];
                }
                if (2 * both > either) groups[b] = static_cast<int>(a);
            }
        }
        return groups;
    }

    // Joins groups and moves single items as long as that lowers the cost. Returns the cost.
    double climb(std::vector<int>& groups) const {
        double now = cost(groups);
        for (bool better = true; better;) {
            better = join(groups, now);
            for (std::size_t item = 0; item < groups.size(); ++item) {
                const int home = groups[item];
                int best = home;
                std::vector<bool> tried(groups.size());
                const auto attempt = [&](int g) {
                    if (g == home || tried[at(g)]) return;
                    tried[at(g)] = true;
                    groups[item] = g;
                    if (const double c = cost(groups); c < now - least_gain) {
                        now = c;
                        best = g;
                    }
                };
                for (std::size_t other = 0; other < groups.size(); ++other)
                    if (other != item && parent_[other] == parent_[item]) attempt(groups[other]);
                groups[item] = home;
                if (const int g = lowest_unused(groups); at(g) < groups.size()) attempt(g);
                groups[item] = best;
                better = better || best != home;
            }
        }
        return now;
    }

    // Joins two groups at a time, those with the largest gain, as long as that lowers the cost, `now`. Returns true if
    // it did. A pair is evaluated again only when its earlier gain is the largest: evaluations are slow, and a merger
    // changes few gains.
    bool join(std::vector<int>& groups, double& now) const {
        struct pair {
            double gain = 0;                    // at its last evaluation
            std::size_t first = 0, second = 0;  // the first item of each group

            bool operator<(const pair& other) const {
                return std::tuple(gain, other.first, other.second) < std::tuple(other.gain, first, second);
            }
        };
        std::priority_queue<pair> open;
        const auto leads = [&](std::size_t i) { return at(position_of(groups[i], groups)) == i; };
        const auto joined = [&](const pair& p) {
            std::vector<int> made = groups;
            std::replace(made.begin(), made.end(), groups[p.second], groups[p.first]);
            return made;
        };
        const auto ask = [&](std::size_t a, std::size_t b) {
            if (parent_[a] != parent_[b] || !leads(a) || !leads(b)) return;
            pair p{0, a, b};
            p.gain = now - cost(joined(p));
            if (p.gain > least_gain) open.push(p);
        };
        for (std::size_t a = 0; a < groups.size(); ++a)
            for (std::size_t b = a + 1; b < groups.size(); ++b) ask(a, b);
        bool better = false;
        while (!open.empty()) {
            pair p = open.top();
            open.pop();
            if (!leads(p.first) || !leads(p.second)) continue;
            std::vector<int> made = joined(p);
            const double c = cost(made);
            p.gain = now - c;
            if (p.gain <= least_gain) continue;
            if (!open.empty() && p.gain < open.top().gain) {
                open.push(p);
                continue;
            }
            groups = std::move(made);
            now = c;
            better = true;
            for (std::size_t i = 0; i < groups.size(); ++i)
                if (i != p.first) ask(std::min(i, p.first), std::max(i, p.first));
        }
        return better;
    }

    // Returns the fraction of the misfit of slowed streams that `with` explains. Returns nothing if that is less than
    // half, or if too few of `streams` are slowed.
    std::optional<double> explained(const hypothesis& without, const hypothesis& with, std::size_t streams) const {
        std::size_t changed = 0, i = 0;
        double was = 0, is = 0;
        for (std::size_t o = 0; o < seen_.size(); ++o)
            for (std::size_t s = 0; s < seen_[o].rates.size(); ++s, ++i) {
                if (with.rates()[o][s] > (1 - noticeable) * without.rates()[o][s]) continue;
                ++changed;
                was += without.off()[i];
                is += with.off()[i];
            }
        if (changed < std::max(fewest_changed, streams / least_part) || is > was / 2) return {};
        return was > 0 ? 1 - is / was : 0;
    }

    // Returns the number of streams that leave or enter group g.
    std::size_t streams_of(const std::vector<int>& groups, int g) const {
        const auto is_in = [&](int node) { return groups[at(levels_[below_].of[at(node)])] == g; };
        std::size_t count = 0;
        for (const observation& o : seen_)
            for (const stream& s : o.between) count += is_in(s.from) != is_in(s.to);
        return count;
    }

    // Splits groups that explain too little by themselves.
    std::vector<int> without_hidden(std::vector<int> groups) const {
        for (std::size_t first = 0; first < groups.size(); ++first) {
            std::vector<std::size_t> others;
            for (std::size_t i = 0; i < groups.size(); ++i)
                if (i != first && groups[i] == groups[first]) others.push_back(i);
            if (others.empty() || others.front() < first) continue;
            std::vector<int> apart = groups;
            for (const std::size_t i : others) apart[i] = lowest_unused(apart);
            const hypothesis without(seen_, inserted(of_nodes(apart))), with(seen_, inserted(of_nodes(groups)));
            if (!explained(without, with, streams_of(groups, groups[first]))) groups = std::move(apart);
        }
        return groups;
    }

    // Joins the remaining items of a parent. Beside a single group they are the other group: the same streams cross
    // both links, so no measurement distinguishes them. Beside several groups they are one more if their link never
    // carried the sum of their rates: the links of the others then hide it.
    std::vector<int> with_the_rest(std::vector<int> groups) const {
        std::vector<int> sizes(groups.size());
        for (const int g : groups) ++sizes[at(g)];
        const int parents = 1 + *std::max_element(parent_.begin(), parent_.end());
        for (int p = 0; p < parents; ++p) {
            std::vector<std::size_t> single;
            std::vector<int> shared;
            for (std::size_t i = 0; i < groups.size(); ++i) {
                if (parent_[i] != p) continue;
                if (sizes[at(groups[i])] == 1) single.push_back(i);
                else if (std::ranges::count(shared, groups[i]) == 0) shared.push_back(groups[i]);
            }
            if (shared.empty() || single.size() < 2) continue;
            std::vector<int> joined = groups;
            for (const std::size_t i : single) joined[i] = groups[single.front()];
            if (shared.size() == 1 || hides_behind_others(groups, joined, single)) groups = std::move(joined);
        }
        return groups;
    }

    bool hides_behind_others(const std::vector<int>& groups, const std::vector<int>& joined,
                             const std::vector<std::size_t>& single) const {
        const grouping of = of_nodes(joined);
        const hypothesis apart(seen_, inserted(of_nodes(groups))), together(seen_, inserted(of));
        if (together.misfit() > apart.misfit() + price_of_group) return false;
        double members = 0;
        for (const std::size_t i : single) members += together.capacity(below_, static_cast<int>(i));
        const int node = position_of(static_cast<int>(single.front()), levels_[below_].of);
        return together.capacity(below_ + 1, of.of[at(node)]) < slower_link * members;
    }

    const std::vector<observation>& seen_;
    const groupings& levels_;
    std::size_t below_;
    hypothesis before_;
    std::vector<int> parent_;
};

constexpr double waits = 0.9;  // fraction of the rates below that a link carries, at most, if it slows them down

bool is_idle(const switch_level& inner, const switch_level& outer) {
    std::vector<int> parent(at(inner.groups.count));
    for (std::size_t n = 0; n < inner.groups.of.size(); ++n) parent[at(inner.groups.of[n])] = outer.groups.of[n];
    std::vector<double> from_below(outer.rates.size());
    for (std::size_t g = 0; g < inner.rates.size(); ++g) from_below[at(parent[g])] += inner.rates[g];
    for (std::size_t g = 0; g < outer.rates.size(); ++g)
        if (outer.rates[g] < waits * from_below[g]) return false;
    return true;
}

}  // namespace

switch_tree find_switches(const std::vector<observation>& seen, int nodes, const std::vector<grouping>& known) {
    groupings levels{grouping::each(nodes)};
    levels.insert(levels.end(), known.begin(), known.end());
    std::vector<double> confidence(levels.size(), 1);
    while (true) {
        new_level best;
        std::ptrdiff_t place = 0;
        for (std::size_t below = 0; below < levels.size(); ++below) {
            auto found = level_search(seen, levels, below).find();
            if (!found || found->gain <= best.gain) continue;
            best = std::move(*found);
            place = static_cast<std::ptrdiff_t>(below) + 1;
        }
        if (place == 0) break;
        levels.insert(levels.begin() + place, best.groups);
        confidence.insert(confidence.begin() + place, best.confidence);
    }
    const hypothesis last(seen, levels);
    switch_tree tree;
    for (std::size_t l = 0; l < levels.size(); ++l) {
        switch_level& made = tree.emplace_back(switch_level{levels[l], {}, confidence[l]});
        for (int g = 0; g < levels[l].count; ++g) made.rates.push_back(last.capacity(l, g));
    }
    return tree;
}

void leave_out_idle(switch_tree& tree, const std::vector<grouping>& known) {
    for (std::size_t l = tree.size(); l-- > 1;)
        if (is_idle(tree[l - 1], tree[l]) && std::find(known.begin(), known.end(), tree[l].groups) == known.end())
            tree.erase(tree.begin() + static_cast<std::ptrdiff_t>(l));
}

}  // namespace terrace::detail::bench
