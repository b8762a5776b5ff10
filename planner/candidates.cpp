#include <algorithm>
#include <set>
#include <utility>

#include "base/index.hpp"
#include "planner/available.hpp"
#include "planner/policy.hpp"
#include "planner/search.hpp"
#include "planner/shapes.hpp"
#include "planner/torus.hpp"
#include "planner/unequal_shares.hpp"

namespace terrace::detail {

namespace {

// Returns the modes that the stages of a shape may have. Allreduce: root inside, then scatter, and outermost scatter or
// replicate; parts of a split level only scatter. Collectives of blocks: scatter in all stages, or one rank represents
// all of an inner domain; in gather and scatter, of each. Others with a root: scatter in consecutive stages, so all
// ranks of a node send to other nodes, and root in the rest. They split no level: tree and chain do the same for a
// root.
std::vector<std::vector<mode>> modes_of(const shape& s, collective what) {
    std::vector<std::vector<mode>> result;
    const bool blocks = row_of(what).blocks;
    if (row_of(what).has_root() && blocks) {
        result.emplace_back(s.size(), mode::scatter);
        if (s.size() > 1) result.emplace_back(s.size(), mode::root);
        return result;
    }
    if (row_of(what).has_root()) {
        if (has_split(s)) return {};
        result.emplace_back(s.size(), mode::root);
        for (std::size_t first = 0; first < s.size(); ++first) {
            std::vector<mode> modes(s.size(), mode::root);
            for (std::size_t i = first; i < s.size() && s[i].group <= policy.told_apart; ++i) {
                modes[i] = mode::scatter;
                result.push_back(modes);
            }
        }
        return result;
    }
    for (std::size_t roots = 0, most = blocks ? s.size() - 1 : s.size(); roots <= most; ++roots) {
        if (roots > 0 && is_split(s, roots - 1)) break;
        std::vector<mode> modes(s.size(), mode::scatter);
        std::fill_n(modes.begin(), roots, mode::root);
        result.push_back(modes);
        if (blocks || roots == s.size() || is_split(s, s.size() - 1)) continue;
        modes.back() = mode::replicate;
        result.push_back(modes);
    }
    return result;
}

bool hinders_lanes_to_root(const algorithm& a) { return a.hinders_lanes && a.supports(mode::root); }

class searcher {
public:
    searcher(pricer& prices, collective what)
        : prices_(prices), machine_(prices.machine()), what_(what), shares_(machine_) {}

    std::vector<priced_candidate> run() {
        add_baselines();
        const std::vector<shape> shapes = shapes_of(machine_);
        const auto unsplit = [](const shape& s) { return has_split(s) ? 0 : s.size(); };
        const std::size_t finest = unsplit(std::ranges::max(shapes, {}, unsplit));
        for (const shape& s : shapes) {
            if (found_.size() > policy.most_candidates && unsplit(s) != finest) continue;
            for (const std::vector<mode>& modes : modes_of(s, what_)) {
                std::vector<stage> stages = s;
                for (std::size_t i = 0; i < s.size(); ++i) stages[i].how = modes[i];
                add(stages);
                if (what_ == collective::allreduce) add_weighed(s, stages);
            }
        }
        if (row_of(what_).up && !row_of(what_).has_root()) add_rounded();
        return std::move(found_);
    }

private:
    using options = std::span<const stage_option>;

    void add_baselines() {
        for (const candidate& c : baselines(prices_, what_)) {
            const bool crowded =
                std::ranges::any_of(c.stages, [](const stage& s) { return crowds(*find_algorithm(s), s.group); });
            if (crowded && !row_of(what_).exchange) continue;  // blocks can always be sent straight to their ranks
            seen_.insert(key_of(c.stages));
            found_.push_back({c, prices_.price_stages(c.stages, what_)});
        }
    }

    // Adds the candidates found so far with the wire types of levels: each such level sends straight to the owner, in
    // its own stage.
    void add_rounded() {
        const auto wire_of = [&](const stage& s) {
            const bool fits = s.how == mode::scatter && s.sends() && s.levels.size() == 1 && s.shares.empty() &&
                              s.route_share == 0 && s.provider == provider::messages &&
                              s.group <= policy.most_exchanges_at_once;
            return fits ? machine_.levels[at(s.levels.front())].wire : wire_type::exact;
        };
        for (std::size_t c = 0, exact = found_.size(); c < exact; ++c) {
            std::vector<stage> stages = found_[c].what.stages;
            bool rounds = false;
            for (stage& s : stages) {
                s.wire = wire_of(s);
                if (s.wire == wire_type::exact) continue;
                s.algorithm = "direct";
                rounds = true;
            }
            if (!rounds || !seen_.insert(key_of(stages)).second) continue;
            try {
                price cost = prices_.price_stages(stages, what_);
                found_.push_back({{found_[c].what.origin == "mixed" ? "mixed" : "staged", stages}, std::move(cost)});
            } catch (const stage_error&) {  // not all ranks would get the same bits
            }
        }
    }

    // Adds the stages of a shape with unequal shares: in all stages, or in the outermost stage as a ring, if that is
    // over several levels. Exchanging parts with all others would load the links of inner levels.
    void add_weighed(const shape& s, const std::vector<stage>& stages) {
        std::vector<stage> weighed = stages, around = stages;
        const auto may_weigh = [&](std::size_t i) { return stages[i].how == mode::scatter && !is_split(s, i); };
        for (std::size_t i = 0; i < s.size(); ++i)
            if (may_weigh(i)) weighed[i].shares = shares_.of(s[i].levels);
        if (may_weigh(s.size() - 1) && s.back().levels.size() > 1)
            around.back().shares = shares_.around(s.back().levels.front());
        for (const std::vector<stage>& each : {weighed, around})
            if (each != stages) add(each);
    }

    // Adds stages with the algorithm of each that is fastest by itself, at every size. There are few such combinations,
    // and the best one is close to one of them. With a root, also adds the outermost algorithm that occupies links the
    // least, since many lanes hide its start-ups, and the best ones that do not hinder lanes.
    void add(const std::vector<stage>& stages) {
        std::vector<options> choices;
        for (std::size_t i = 0; i < stages.size(); ++i) choices.push_back(prices_.options_of(stages, i, what_));
        if (std::any_of(choices.begin(), choices.end(), [](const options& list) { return list.empty(); })) return;
        std::set<std::vector<std::size_t>> tried;
        const auto add_best = [&](auto&& time) {
            for (const bool hinders : {false, true}) {
                const std::vector<std::size_t> best = cheapest(choices, time, hinders);
                if (tried.insert(best).second) add(stages, choices, best);
            }
        };
        const auto at_all_sizes = [&](auto&& time_of) {
            for (std::int64_t bytes = policy.smallest_size; bytes <= policy.largest_size; bytes *= 2)
                add_best(
                    [&](const stage_price& p, std::size_t i) { return time_of(p, i, static_cast<double>(bytes)); });
        };
        at_all_sizes([&](const stage_price& p, std::size_t, double bytes) { return p.time(bytes); });
        // In a pipeline, only the time that a link is occupied counts.
        add_best([&](const stage_price& p, std::size_t) { return p.busiest_link(); });
        if (!row_of(what_).has_root()) return;
        at_all_sizes([&](const stage_price& p, std::size_t i, double bytes) {
            return i + 1 == stages.size() ? p.busiest_link() : p.time(bytes);
        });
    }

    // Returns the index of each stage's cheapest option; the first one if none is cheaper. @param time of an option of
    // a stage   @param hinders also allows algorithms that hinder lanes in mode root
    template <class Time>
    std::vector<std::size_t> cheapest(const std::vector<options>& choices, Time&& time, bool hinders) const {
        // Algorithms that pass the vector on need more chunks in flight than an allreduce may have.
        const auto may_be = [&](const algorithm& a) {
            if (!row_of(what_).has_root() && (a.passes_on || hinders_lanes_to_root(a))) return false;
            return hinders || !hinders_lanes_to_root(a);
        };
        std::vector<std::size_t> best;
        for (std::size_t s = 0; s < choices.size(); ++s) {
            const options& list = choices[s];
            std::size_t chosen = 0;
            for (std::size_t i = 1; i < list.size(); ++i)
                if (may_be(*list[i].by) && time(*list[i].cost, s) < time(*list[chosen].cost, s) * (1 - rounding))
                    chosen = i;
            best.push_back(chosen);
        }
        return best;
    }

    void add(std::vector<stage> stages, const std::vector<options>& choices, const std::vector<std::size_t>& chosen) {
        std::vector<std::shared_ptr<const stage_price>> costs;
        for (std::size_t s = 0; s < stages.size(); ++s) {
            const stage_option& o = choices[s][chosen[s]];
            o.apply_to(stages[s]);
            costs.push_back(o.cost);
        }
        if (!seen_.insert(key_of(stages)).second) return;
        found_.push_back({{"staged", stages}, prices_.price_together(what_, stages, costs)});
        candidate& made = found_.back().what;
        if (!made.only_scatters()) made.origin = "mixed";
        if (row_of(what_).blocks && (row_of(what_).exchange || !made.only_scatters()))
            return;  // such blocks pass the stages in one order
        for (const bool in_one_piece : {false, true}) add_routes(stages, costs, in_one_piece);
    }

    // Adds the same stages with routes: dimensions of a torus take turns at being first.
    void add_routes(std::vector<stage> stages, const std::vector<std::shared_ptr<const stage_price>>& costs,
                    bool in_one_piece) {
        const std::vector<int> shares = route_shares(machine_, prices_.rows(), stages, costs, in_one_piece);
        for (std::size_t s = 0; s < shares.size(); ++s) stages[s].route_share = shares[s];
        if (seen_.insert(key_of(stages)).second)
            found_.push_back({{"staged", stages}, prices_.price_together(what_, stages, costs)});
    }

    pricer& prices_;
    const hierarchy& machine_;
    collective what_;
    unequal_shares shares_;
    std::set<std::string> seen_;
    std::vector<priced_candidate> found_;
};

}  // namespace

std::vector<priced_candidate> search(pricer& prices, collective what) { return searcher(prices, what).run(); }

}  // namespace terrace::detail
