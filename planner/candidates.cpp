#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "planner/search.hpp"

namespace terrace {

namespace {

// No transport offers native stages yet.
bool available(const algorithm& a) { return a.name != "native"; }

// ---- shapes: levels kept, merged, or one of them split --------------------------------------------------------------

// What a stage covers, before it has a mode and an algorithm.
struct piece {
    std::vector<int> levels;
    int group = 0;
    bool split = false;
};
using shape = std::vector<piece>;

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
    explicit shape_list(const tree& t) : tree_(t), units_(units_of(t)) {}

    // Every order-preserving way, those with the fewest splits and then the fewest stages first.
    std::vector<shape> run() {
        extend(0, false);
        std::stable_sort(found_.begin(), found_.end(),
                         [](const shape& a, const shape& b) { return rank(a) < rank(b); });
        if (found_.size() > max_shapes) found_.resize(max_shapes);
        return std::move(found_);
    }

private:
    static constexpr std::size_t max_shapes = 512;

    static std::pair<bool, std::size_t> rank(const shape& s) {
        return {std::any_of(s.begin(), s.end(), [](const piece& p) { return p.split; }), s.size()};
    }

    void extend(std::size_t unit, bool has_split) {
        if (unit == units_.size()) {
            found_.push_back(current_);
            return;
        }
        for (std::size_t last = unit; last < units_.size(); ++last) {
            current_.push_back(whole_levels(tree_, units_[unit].first, units_[last].second));
            extend(last + 1, has_split);
            current_.pop_back();
        }
        if (!has_split) split(unit);
    }

    // A level in two factors, in both orders. One level at a time: more splits cost more start-ups than they save.
    void split(std::size_t unit) {
        const auto [first, last] = units_[unit];
        const int size = first == last ? tree_.uniform_size(first).value_or(0) : 0;
        for (int a = 2; a * 2 <= size; ++a) {
            if (size % a != 0) continue;
            current_.push_back({{first}, a, true});
            current_.push_back({{first}, size / a, true});
            extend(unit + 1, true);
            current_.resize(current_.size() - 2);
        }
    }

    const tree& tree_;
    std::vector<std::pair<int, int>> units_;
    shape current_;
    std::vector<shape> found_;
};

// ---- modes ----------------------------------------------------------------------------------------------------------

// Root inside, then scatter, then scatter or replicate outermost. Parts of a split level only scatter.
std::vector<std::vector<mode>> modes_of(const shape& s) {
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

// ---- algorithms -----------------------------------------------------------------------------------------------------

class searcher {
public:
    explicit searcher(pricer& prices) : prices_(prices) {}

    std::vector<priced_candidate> run() {
        for (const std::string_view name : {"flat-ring", "two-level", "central"}) {
            priced_candidate c = priced_baseline(prices_, name);
            seen_.insert(key_of(c.what.stages));
            found_.push_back(std::move(c));
        }
        for (const shape& s : shape_list(prices_.machine().shape).run())
            for (const std::vector<mode>& modes : modes_of(s)) add(s, modes);
        return std::move(found_);
    }

private:
    struct option {
        const algorithm* by;
        std::shared_ptr<const stage_price> cost;
    };
    using options = std::vector<option>;

    static std::string key_of(std::span<const stage> stages) {
        std::string key;
        for (const stage& s : stages)
            key += fmt::format("{}-{}:{}:{}:{};", s.levels.front(), s.levels.back(), s.group, to_string(s.how),
                               s.algorithm);
        return key;
    }

    // Per stage its own best algorithm, at every size: that gives few combinations, and none that is best is far from
    // one.
    void add(const shape& s, const std::vector<mode>& modes) {
        std::vector<stage> stages;
        for (std::size_t i = 0; i < s.size(); ++i) stages.push_back({s[i].levels, s[i].group, modes[i], ""});
        const std::vector<const options*> choices = price_all(stages);
        std::set<std::vector<std::size_t>> picked;
        for (std::int64_t bytes = smallest_size; bytes <= largest_size; bytes *= 2)
            pick(stages, choices, picked, [&](const stage_price& p) { return p.time(static_cast<double>(bytes)); });
        // In a pipeline only the time that a link is occupied counts.
        pick(stages, choices, picked, [](const stage_price& p) { return total(p.up) + total(p.down); });
    }

    static double total(const phase_cost& p) {
        return p.links.empty() ? 0 : *std::max_element(p.links.begin(), p.links.end());
    }

    template <class Time>
    void pick(std::vector<stage>& stages, const std::vector<const options*>& choices,
              std::set<std::vector<std::size_t>>& picked, Time&& time) {
        std::vector<std::size_t> best;
        std::vector<std::shared_ptr<const stage_price>> costs;
        for (std::size_t s = 0; s < stages.size(); ++s) {
            const options& list = *choices[s];
            std::size_t chosen = 0;
            for (std::size_t i = 1; i < list.size(); ++i)
                if (time(*list[i].cost) < time(*list[chosen].cost) * (1 - 1e-6)) chosen = i;
            best.push_back(chosen);
            stages[s].algorithm = list[chosen].by->name;
            costs.push_back(list[chosen].cost);
        }
        if (!picked.insert(best).second || !seen_.insert(key_of(stages)).second) return;
        const bool scatter_only =
            std::all_of(stages.begin(), stages.end(), [](const stage& s) { return s.how == mode::scatter; });
        found_.push_back({{scatter_only ? "staged" : "mixed", stages}, price(prices_.machine(), std::move(costs))});
    }

    // What a stage costs depends on the stages inside it, not on their algorithms and not on the stages outside it.
    std::vector<const options*> price_all(std::vector<stage> stages) {
        std::vector<std::string> keys;
        bool known = true;
        for (std::size_t s = 0; s < stages.size(); ++s) {
            keys.push_back(key_of(std::span(stages).first(s + 1)));
            known &= priced_.contains(keys.back());
        }
        if (!known) price_missing(stages, keys);
        std::vector<const options*> choices;
        for (const std::string& key : keys) choices.push_back(&priced_.at(key));
        return choices;
    }

    void price_missing(std::vector<stage>& stages, const std::vector<std::string>& keys) {
        std::vector<options> able;
        for (stage& s : stages) {
            able.emplace_back();
            for (const algorithm& a : algorithms())
                if (available(a) && a.supports(s.how)) able.back().push_back({&a, nullptr});
            s.algorithm = able.back().front().by->name;
        }
        const composition c = prices_.lay_out(stages);
        for (std::size_t s = 0; s < stages.size(); ++s) {
            if (priced_.contains(keys[s])) continue;
            for (option& o : able[s]) o.cost = prices_.price_stage(c, s, *o.by);
            priced_.emplace(keys[s], std::move(able[s]));
        }
    }

    pricer& prices_;
    std::map<std::string, options> priced_;  // by the stages up to and with the priced one, without algorithms
    std::set<std::string> seen_;
    std::vector<priced_candidate> found_;
};

// ---- baselines ------------------------------------------------------------------------------------------------------

stage whole_stage(const hierarchy& machine, int first, int last, mode how, std::string_view by) {
    const piece p = whole_levels(machine.shape, first, last);
    return {p.levels, p.group, how, std::string(by)};
}

// The faster one at 1 MiB, where two-level is in use: it is one algorithm, not one per size.
void choose_root_algorithm(pricer& prices, std::vector<stage>& stages) {
    constexpr double bytes = 1 << 20;
    const composition c = prices.lay_out(stages);
    double best = std::numeric_limits<double>::infinity();
    for (const algorithm& a : algorithms()) {
        if (!available(a) || !a.supports(mode::root)) continue;
        const double time = prices.price_stage(c, 0, a)->time(bytes);
        if (time >= best * (1 - 1e-6)) continue;
        best = time;
        stages.front().algorithm = a.name;
    }
}

std::vector<stage> two_level(pricer& prices) {
    const hierarchy& machine = prices.machine();
    const int outermost = machine.depth() - 1, node_levels = machine.node_levels();
    const int inner = node_levels == 0 || node_levels > outermost ? 0 : node_levels - 1;
    std::vector<stage> stages{whole_stage(machine, 0, inner, mode::root, "tree")};
    if (inner < outermost) stages.push_back(whole_stage(machine, inner + 1, outermost, mode::scatter, "ring"));
    choose_root_algorithm(prices, stages);
    return stages;
}

}  // namespace

priced_candidate priced_baseline(pricer& prices, std::string_view name) {
    const hierarchy& machine = prices.machine();
    const int outermost = machine.depth() - 1;
    candidate c{std::string(name), {}};
    if (name == "flat-ring") c.stages = {whole_stage(machine, 0, outermost, mode::scatter, "ring")};
    else if (name == "central") c.stages = {whole_stage(machine, 0, outermost, mode::root, "direct")};
    else if (name == "two-level") c.stages = two_level(prices);
    else throw usage_error(fmt::format("there is no baseline \"{}\"; these are flat-ring, two-level, central", name));
    price cost = prices.price_stages(c.stages);
    return {std::move(c), std::move(cost)};
}

std::vector<priced_candidate> search(pricer& prices) { return searcher(prices).run(); }

std::vector<candidate> candidates(const hierarchy& machine) {
    pricer prices(machine);
    std::vector<candidate> result;
    for (priced_candidate& c : search(prices)) result.push_back(std::move(c.what));
    return result;
}

candidate baseline(const hierarchy& machine, std::string_view name) {
    pricer prices(machine);
    return priced_baseline(prices, name).what;
}

}  // namespace terrace
