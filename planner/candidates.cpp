#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "planner/search.hpp"

namespace terrace {

namespace {

// ---- shapes: levels kept, merged, or one of them split --------------------------------------------------------------

// What a stage covers, before it has a mode and an algorithm.
struct piece {
    std::vector<int> levels;
    int group = 0;
    bool split = false;
};
using shape = std::vector<piece>;

bool has_split(const shape& s) {
    return std::any_of(s.begin(), s.end(), [](const piece& p) { return p.split; });
}

// Groups of `levels`, whole: their common size, or 0.
int group_of(const tree& t, const std::vector<int>& levels) {
    std::set<int> sizes;
    for (int d = 0; d < t.domains(levels.back()); ++d) {
        int first = d, end = d + 1;
        for (auto l = levels.rbegin(); l != levels.rend(); ++l) {
            first = t.first_child(*l, first);
            end = t.first_child(*l, end);
        }
        sizes.insert(end - first);
    }
    return sizes.size() == 1 ? *sizes.begin() : 0;
}

piece whole_levels(const tree& t, int first, int last) {
    piece p;
    for (int l = first; l <= last; ++l) p.levels.push_back(l);
    p.group = group_of(t, p.levels);
    return p;
}

// Consecutive levels that are worth a stage of their own: one level each, with those that join nothing (every domain
// has one child) put with the next one outwards, or with the last one.
std::vector<std::pair<int, int>> units_of(const tree& t) {
    std::vector<std::pair<int, int>> units;
    int first = 0;
    for (int l = 0; l < t.depth(); ++l) {
        if (t.uniform_size(l) == 1) continue;
        units.emplace_back(first, l);
        first = l + 1;
    }
    if (units.empty()) return {{0, t.depth() - 1}};
    units.back().second = t.depth() - 1;
    return units;
}

class shape_list {
public:
    explicit shape_list(const hierarchy& machine)
        : tree_(machine.shape), units_(units_of(machine.shape)), torus_(machine.torus_level()) {}

    // Every order-preserving way, those with the fewest splits and then the fewest stages first; of too many the first,
    // and a stage for each level.
    std::vector<shape> run() {
        for (const bool splits : {false, true})
            for (std::size_t groups = 1; groups <= units_.size(); ++groups) extend(0, groups, splits);
        if (found_.size() > max_shapes) {
            found_.resize(max_shapes);
            extend(0, units_.size(), false);
        }
        return std::move(found_);
    }

private:
    static constexpr std::size_t max_shapes = 512;

    // Units from one on, in so many groups; if wanted one of them is a level in two parts.
    void extend(std::size_t unit, std::size_t groups, bool splits) {
        const std::size_t left = units_.size() - unit;
        if (left == 0 && groups == 0 && !splits) found_.push_back(current_);
        if (groups == 0 || groups > left || found_.size() > max_shapes) return;
        for (std::size_t last = unit; last < units_.size(); ++last) {
            current_.push_back(whole_levels(tree_, units_[unit].first, units_[last].second));
            extend(last + 1, groups - 1, splits);
            current_.pop_back();
        }
        if (splits) split(unit, groups);
    }

    // A level in two factors, in both orders. One level at a time: more splits cost more start-ups than they save.
    void split(std::size_t unit, std::size_t groups) {
        const auto [first, last] = units_[unit];
        const int size = first == last && last < torus_ ? tree_.uniform_size(first).value_or(0) : 0;
        for (int a = 2; a * 2 <= size; ++a) {
            if (size % a != 0) continue;
            current_.push_back({{first}, a, true});
            current_.push_back({{first}, size / a, true});
            extend(unit + 1, groups - 1, false);
            current_.resize(current_.size() - 2);
        }
    }

    const tree& tree_;
    std::vector<std::pair<int, int>> units_;
    int torus_;  // dimensions from this level on: a part of a ring is none
    shape current_;
    std::vector<shape> found_;
};

// ---- modes ----------------------------------------------------------------------------------------------------------

// Allreduce: root inside, then scatter, then scatter or replicate outermost. Parts of a split level only scatter. The
// others have one mode throughout, and to split a level for a root is what tree and chain do.
std::vector<std::vector<mode>> modes_of(const shape& s, collective what) {
    if (has_blocks(what)) return {std::vector(s.size(), mode::scatter)};
    if (has_root(what) && has_split(s)) return {};
    if (has_root(what)) return {std::vector(s.size(), mode::root)};
    std::vector<std::vector<mode>> result;
    for (std::size_t roots = 0; roots <= s.size(); ++roots) {
        if (roots > 0 && s[roots - 1].split) break;
        std::vector<mode> modes(s.size(), mode::scatter);
        std::fill_n(modes.begin(), roots, mode::root);
        result.push_back(modes);
        if (roots == s.size() || s.back().split) continue;
        modes.back() = mode::replicate;
        result.push_back(modes);
    }
    return result;
}

// ---- weights --------------------------------------------------------------------------------------------------------

// How much of a vector the children of the outermost level, n >= 3 with links of rates U, are to own so that none takes
// longer than the limit T: a child with the part f moves (1 + (n - 2) f) N each way, so f = (T U / N - 1) / (n - 2).
// Nothing where their links are alike.
std::vector<int> weights_of(const hierarchy& machine) {
    const int top = machine.depth() - 1, n = machine.shape.members(top);
    const std::vector<double>& rates = machine.levels.back().rates;
    if (rates.empty() || n < 3) return {};
    const double sum = std::accumulate(rates.begin(), rates.end(), 0.0);
    const double time = std::max(2 * (n - 1) / sum, 1 / *std::min_element(rates.begin(), rates.end()));
    std::vector<double> parts;
    for (const double rate : rates) parts.push_back(std::max(0.0, (time * rate - 1) / (n - 2)));
    const double all = std::accumulate(parts.begin(), parts.end(), 0.0);
    constexpr double finest = 60;
    std::vector<int> weights;
    int common = 0;
    for (const double part : parts) {
        weights.push_back(static_cast<int>(std::lround(finest * part / all)));
        common = std::gcd(common, weights.back());
    }
    if (common == 0) return {};
    for (int& w : weights) w /= common;
    return weights;
}

// ---- algorithms -----------------------------------------------------------------------------------------------------

// A chain pays with many chunks in flight, more than an allreduce is given.
bool worth_trying(const algorithm& a, collective what) { return a.name != "chain" || has_root(what); }

class searcher {
public:
    searcher(pricer& prices, collective what) : prices_(prices), what_(what) {}

    std::vector<priced_candidate> run() {
        for (const std::string_view name : {"flat-ring", "two-level", "central"}) {
            if (name == "central" && (has_blocks(what_) || prices_.machine().ranks() > crowd)) continue;
            priced_candidate c = priced_baseline(prices_, name, what_);
            seen_.insert(key_of(c.what.stages));
            found_.push_back(std::move(c));
        }
        const std::vector<int> weights =
            what_ == collective::allreduce ? weights_of(prices_.machine()) : std::vector<int>{};
        const std::vector<int> top{prices_.machine().depth() - 1};
        const std::vector<shape> shapes = shape_list(prices_.machine()).run();
        const std::size_t finest = stages_of_finest(shapes);
        for (const shape& s : shapes) {
            if (found_.size() > max_candidates && (s.size() < finest || has_split(s))) continue;
            for (const std::vector<mode>& modes : modes_of(s, what_)) {
                add(s, modes);
                const bool whole_top = s.back().levels == top && !s.back().split;
                if (!weights.empty() && whole_top && modes.back() == mode::scatter) add(s, modes, weights);
            }
        }
        return std::move(found_);
    }

private:
    using options = std::span<const pricer::option>;

    static constexpr std::size_t max_candidates = 2000;  // only machines of more than seven levels have more

    // A stage for each level.
    static std::size_t stages_of_finest(const std::vector<shape>& shapes) {
        std::size_t most = 0;
        for (const shape& s : shapes) most = std::max(most, has_split(s) ? 0 : s.size());
        return most;
    }

    // Per stage its own best algorithm, at every size: that gives few combinations, and none that is best is far from
    // one.
    void add(const shape& s, const std::vector<mode>& modes, const std::vector<int>& weights = {}) {
        std::vector<stage> stages;
        for (std::size_t i = 0; i < s.size(); ++i) stages.push_back({s[i].levels, s[i].group, modes[i], ""});
        stages.back().weights = weights;
        const std::vector<options> choices = prices_.price_options(stages);
        if (std::any_of(choices.begin(), choices.end(), [](const options& list) { return list.empty(); })) return;
        std::set<std::vector<std::size_t>> picked;
        for (std::int64_t bytes = smallest_size; bytes <= largest_size; bytes *= 2)
            pick(stages, choices, picked,
                 [&](const stage_price& p) { return p.time(static_cast<double>(bytes), what_); });
        // In a pipeline only the time that a link is occupied counts.
        pick(stages, choices, picked, [&](const stage_price& p) { return p.busiest_link(what_); });
    }

    template <class Time>
    void pick(std::vector<stage>& stages, const std::vector<options>& choices,
              std::set<std::vector<std::size_t>>& picked, Time&& time) {
        std::vector<std::size_t> best;
        std::vector<std::shared_ptr<const stage_price>> costs;
        for (std::size_t s = 0; s < stages.size(); ++s) {
            const options& list = choices[s];
            std::size_t chosen = 0;
            for (std::size_t i = 1; i < list.size(); ++i)
                if (worth_trying(*list[i].by, what_) && time(*list[i].cost) < time(*list[chosen].cost) * (1 - 1e-6))
                    chosen = i;
            best.push_back(chosen);
            stages[s].algorithm = list[chosen].by->name;
            stages[s].over = list[chosen].over;
            costs.push_back(list[chosen].cost);
        }
        if (!picked.insert(best).second || !seen_.insert(key_of(stages)).second) return;
        const bool scatter_only =
            std::all_of(stages.begin(), stages.end(), [](const stage& s) { return s.how == mode::scatter; });
        found_.push_back({{scatter_only ? "staged" : "mixed", stages}, prices_.price_together(what_, stages, costs)});
        for (const bool in_one_piece : {false, true}) {
            std::vector<stage> turning = stages;
            const std::vector<int> turns = prices_.turns(what_, stages, costs, in_one_piece);
            for (std::size_t t = 0; t < turns.size(); ++t) turning[t].first = turns[t];
            if (seen_.insert(key_of(turning)).second)
                found_.push_back({{"staged", turning}, prices_.price_together(what_, turning, costs)});
        }
    }

    pricer& prices_;
    collective what_;
    std::set<std::string> seen_;
    std::vector<priced_candidate> found_;
};

// ---- baselines ------------------------------------------------------------------------------------------------------

stage whole_stage(const hierarchy& machine, int first, int last, mode how, std::string_view by) {
    const piece p = whole_levels(machine.shape, first, last);
    return {p.levels, p.group, how, std::string(by)};
}

// The fastest one at 1 MiB, where two-level is in use: it is one algorithm, not one per size.
void choose_node_algorithm(pricer& prices, std::vector<stage>& stages, collective what) {
    constexpr double bytes = 1 << 20;
    double best = std::numeric_limits<double>::infinity();
    const std::span<const pricer::option> options = prices.price_options(std::span(stages).first(1)).front();
    for (const pricer::option& o : options) {
        const double time = o.cost->time(bytes, what);
        if (time >= best * (1 - 1e-6)) continue;
        best = time;
        stages.front().algorithm = o.by->name;
        stages.front().over = o.over;
    }
}

std::vector<stage> two_level(pricer& prices, collective what) {
    const hierarchy& machine = prices.machine();
    const int outermost = machine.depth() - 1, node_levels = machine.node_levels();
    const int inner = node_levels == 0 || node_levels > outermost ? 0 : node_levels - 1;
    const mode in_node = has_blocks(what) ? mode::scatter : mode::root;
    const mode between = has_root(what) ? mode::root : mode::scatter;
    std::vector<stage> stages{whole_stage(machine, 0, inner, in_node, "ring")};
    if (inner < outermost)
        stages.push_back(whole_stage(machine, inner + 1, outermost, between, has_root(what) ? "tree" : "ring"));
    choose_node_algorithm(prices, stages, what);
    return stages;
}

candidate named_baseline(pricer& prices, std::string_view name, collective what) {
    const hierarchy& machine = prices.machine();
    const int outermost = machine.depth() - 1;
    if (name == "flat-ring" && has_root(what))
        return {"flat-chain", {whole_stage(machine, 0, outermost, mode::root, "chain")}};
    if (name == "flat-ring") return {"flat-ring", {whole_stage(machine, 0, outermost, mode::scatter, "ring")}};
    if (name == "two-level") return {"two-level", two_level(prices, what)};
    if (name == "central" && !has_blocks(what))
        return {"central", {whole_stage(machine, 0, outermost, mode::root, "direct")}};
    throw usage_error(fmt::format("there is no baseline \"{}\" of {}; these are flat-ring, two-level{}", name,
                                  to_string(what), has_blocks(what) ? "" : ", central"));
}

}  // namespace

priced_candidate priced_baseline(pricer& prices, std::string_view name, collective what) {
    candidate c = named_baseline(prices, name, what);
    price cost = prices.price_stages(c.stages, what);
    return {std::move(c), std::move(cost)};
}

std::vector<priced_candidate> search(pricer& prices, collective what) { return searcher(prices, what).run(); }

std::vector<candidate> candidates(const hierarchy& machine, collective what) {
    pricer prices(machine);
    std::vector<candidate> result;
    for (priced_candidate& c : search(prices, what)) result.push_back(std::move(c.what));
    return result;
}

candidate baseline(const hierarchy& machine, std::string_view name, collective what) {
    pricer prices(machine);
    return named_baseline(prices, name, what);
}

}  // namespace terrace
