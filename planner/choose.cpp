#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include <terrace/version.hpp>

#include "base/partition.hpp"
#include "plan/plan_yaml.hpp"
#include "planner/search.hpp"
#include "planner/trials.hpp"

namespace terrace {

namespace {

constexpr std::int64_t kib = 1024;

// ---- lanes and chunk ------------------------------------------------------------------------------------------------

struct tuning {
    int lanes = 1;
    std::int64_t chunk = 0;
    double time = 0;
    double simulated = 0;  // where a simulation decided

    friend bool operator==(const tuning& a, const tuning& b) { return a.lanes == b.lanes && a.chunk == b.chunk; }
};

// Messages up to here are not worth slicing: start-ups dominate.
constexpr std::int64_t small_message = 64 * kib;

// Lengths of the largest message between nodes, as preferred where times are equal. 48 KiB is what the wire likes best
// (docs/performance.md); longer ones pay off where a start-up or an overhead is long for its bandwidth.
constexpr std::array<std::int64_t, 6> message_lengths{48 * kib, 96 * kib, 192 * kib, 384 * kib, 32 * kib, 16 * kib};
// In memory alone a chunk is as long as a core's cache holds; the model knows of no caches.
constexpr std::array<std::int64_t, 1> shard_lengths{256 * kib};

// More chunks in flight than three made things slower wherever it was measured; but on its way from or to a root a
// chunk is in one or two places at a time, and where a latency is long beside a chunk many are needed to keep links
// busy: all that a plan may have, where a lane takes no slot of shared memory. Where dimensions of a torus take turns,
// a lane's messages are of several lengths at a time, and one link's wait for another's: twice as many chunks fill
// those gaps.
int max_lanes(const hierarchy& machine, const priced_candidate& c) noexcept {
    if (has_root(c.cost.what())) return through_memory(machine, 0) ? 16 : 64;
    const auto comes_first = [](const stage& s) { return s.first > 0; };
    return std::any_of(c.what.stages.begin(), c.what.stages.end(), comes_first) ? 6 : 3;
}

// Where no simulation says what lanes lose to one another, and ranks have cores to themselves. Simulated by hand on 64
// to 192 ranks, six took 0 to 26 % less than three, and eight hardly less than six (docs/architecture.md).
int untried_lanes(const hierarchy& machine) noexcept { return through_memory(machine, 0) ? 4 : 6; }

// Gains below this are not worth another lane or a less usual chunk.
constexpr double tie = 1.01;

// What there is to choose from, the same for every candidate, so that comparisons are of algorithms and nothing else.
std::vector<tuning> tunings(const hierarchy& machine, const priced_candidate& c, std::int64_t bytes) {
    const price& cost = c.cost;
    const auto size = static_cast<double>(bytes);
    std::vector<std::pair<std::int64_t, pipeline>> chunked;
    const std::span<const std::int64_t> lengths =
        cost.crosses_network() ? std::span<const std::int64_t>(message_lengths) : shard_lengths;
    for (const std::int64_t length : lengths) {
        const auto wanted = static_cast<std::int64_t>(std::llround(static_cast<double>(length) * cost.shrink()));
        const std::int64_t chunk = round_up(std::max<std::int64_t>(wanted, 1), 4 * kib);
        if (bytes > small_message && chunk < bytes) chunked.emplace_back(chunk, cost.in_chunks(size, chunk));
    }
    std::vector<tuning> options;
    const bool cached = !cost.crosses_network() && !chunked.empty() && 2 * chunked.front().first <= bytes;
    if (!cached) options.push_back({1, 0, cost.time(size, 1, 0)});
    for (int lanes = 2; lanes <= max_lanes(machine, c); ++lanes)
        for (const auto& [chunk, p] : chunked) options.push_back({lanes, chunk, p.time(lanes)});
    return options;
}

tuning tune(const hierarchy& machine, const priced_candidate& c, std::int64_t bytes) {
    const std::vector<tuning> options = tunings(machine, c, bytes);
    const auto faster = [](const tuning& a, const tuning& b) { return a.time < b.time; };
    const double best = std::min_element(options.begin(), options.end(), faster)->time;
    return *std::find_if(options.begin(), options.end(), [&](const tuning& t) { return t.time <= best * tie; });
}

rule rule_of(const hierarchy& machine, const candidate& c, const tuning& t, std::int64_t bytes, collective what) {
    return {.up_to = bytes,
            .lanes = t.lanes,
            .chunk = t.chunk,
            .at = bytes,
            .predicted = t.time,
            .simulated = t.simulated,
            .limit = limit(machine, bytes, what),
            .stages = c.stages};
}

// ---- rules for all sizes --------------------------------------------------------------------------------------------

// Predictions closer than this are equal; what leaves the processors more to spare is then better, but by this much.
constexpr double equal = 1.02;
constexpr double similar_effort = 1.25;

class rule_maker {
public:
    // Chooses among `list`. Nothing is chosen that is predicted slower than any of `floor` in its place.
    rule_maker(const hierarchy& machine, const std::vector<priced_candidate>& list, std::vector<std::size_t> floor)
        : machine_(machine), list_(list), floor_(std::move(floor)), trials_(machine) {}

    std::vector<rule> run() {
        for (std::int64_t bytes = smallest_size; bytes <= largest_size; bytes *= 2) {
            tune_all(bytes);
            append(bytes);
        }
        rules_.back().up_to = rule::no_bound;
        return std::move(rules_);
    }

private:
    static constexpr std::size_t nothing = std::numeric_limits<std::size_t>::max();
    static constexpr std::int64_t finest_parts = 256;

    // What cannot be near the best, however it is tuned, is left out.
    void tune_all(std::int64_t bytes) {
        double best = std::numeric_limits<double>::infinity();
        how_.resize(list_.size());
        open_.clear();
        for (std::size_t i = 0; i < list_.size(); ++i) {
            const bool in_any_case = is_of_floor(i);
            if (!in_any_case && list_[i].cost.at_least(static_cast<double>(bytes)) > best * far_off) continue;
            how_[i] = tune(machine_, list_[i], bytes);
            best = std::min(best, how_[i].time);
            open_.push_back(i);
        }
    }

    // Rules for more than half of `bytes` and at most that.
    void append(std::int64_t bytes) {
        const std::vector<std::size_t> good = all_good(bytes / 2, bytes);
        chosen_ = choose(good, bytes);
        option tried{chosen_, how_[chosen_]};
        if (worth_a_trial(bytes)) tried = try_out(tried, good, bytes / 2, bytes);
        if (good.empty() && tried.second.simulated == 0) return divide(bytes / 2, bytes, finest_parts);
        chosen_ = tried.first;
        add(tried.second, bytes);
    }

    // Simulations know of no caches, and so of memory only what blocks of unequal siblings ask of it. A baseline in one
    // piece is what it is.
    bool worth_a_trial(std::int64_t bytes) const {
        const price& cost = list_[chosen_].cost;
        if (has_root(cost.what())) return false;
        if (cost.crosses_network() && how_[chosen_].lanes > 1) return true;
        return (cost.crosses_network() || has_blocks(cost.what())) && bytes > small_message && !floor_.empty();
    }

    // Where those of the floor cross between two sizes, and nothing beats both, more bounds are needed.
    void divide(std::int64_t low, std::int64_t high, std::int64_t parts) {
        const std::vector<std::size_t> good = all_good(low, high);
        if (!good.empty() || parts == 1 || high - low < 2) {
            chosen_ = choose(good, high);
            return add(how_[chosen_], high);
        }
        divide(low, low + (high - low) / 2, parts / 2);
        divide(low + (high - low) / 2, high, parts / 2);
    }

    // What is chosen, up to so many bytes.
    void add(tuning how, std::int64_t high) {
        how.time = time_of(chosen_, how, static_cast<double>(high));
        rule next = rule_of(machine_, list_[chosen_].what, how, high, list_[chosen_].cost.what());
        const bool same = !rules_.empty() && rules_.back().stages == next.stages && rules_.back().lanes == next.lanes &&
                          rules_.back().chunk == next.chunk;
        if (same) rules_.back() = std::move(next);
        else rules_.push_back(std::move(next));
    }

    // Candidates that are nowhere between `low` and `high` predicted slower than the floor.
    std::vector<std::size_t> all_good(std::int64_t low, std::int64_t high) const {
        const std::map<double, double> floor = floor_between(low, high);
        std::vector<std::size_t> good;
        for (const std::size_t i : open_)
            if (is_above(i, how_[i], floor)) good.push_back(i);
        return good;
    }

    // What those of the floor are predicted to take, by size.
    std::map<double, double> floor_between(std::int64_t low, std::int64_t high) const {
        const auto from = static_cast<double>(low), to = static_cast<double>(high);
        std::map<double, double> floor;
        for (const double sample :
             {to, (from + to) / 2, std::min(from + 1, to), from + (to - from) / 4, to - (to - from) / 4}) {
            double& time = floor[sample] = std::numeric_limits<double>::infinity();
            for (const std::size_t f : floor_) time = std::min(time, time_at(f, sample) * (1 + 1e-9));
        }
        return floor;
    }

    bool is_above(std::size_t index, const tuning& how, const std::map<double, double>& floor) const {
        return std::all_of(floor.rbegin(), floor.rend(),
                           [&](const auto& at) { return time_of(index, how, at.first) <= at.second; });
    }

    double time_of(std::size_t index, const tuning& how, double bytes) const {
        return list_[index].cost.time(bytes, how.lanes, how.chunk);
    }
    double time_at(std::size_t index, double bytes) const { return time_of(index, how_[index], bytes); }

    std::size_t choose(std::vector<std::size_t> fast, std::int64_t high) const {
        if (fast.empty()) fast = all_good(high, high);  // they cross even here; the best of the floor is left
        return simplest(equally_fast(std::move(fast), static_cast<double>(high)), static_cast<double>(high));
    }

    // The fastest, and what is about as fast.
    std::vector<std::size_t> equally_fast(std::vector<std::size_t> among, double bytes) const {
        std::map<std::size_t, double> times;
        double best = std::numeric_limits<double>::infinity();
        for (const std::size_t i : among) best = std::min(best, times[i] = time_at(i, bytes));
        std::erase_if(among, [&](std::size_t i) { return times[i] > best * equal; });
        return among;
    }

    // Of those that are equally fast and take about as much of the processors: the stages of the size below, else the
    // fewest.
    std::size_t simplest(std::vector<std::size_t> fast, double bytes) const {
        std::map<std::size_t, double> effort;
        double least = std::numeric_limits<double>::infinity();
        for (const std::size_t i : fast)
            least = std::min(least, effort[i] = list_[i].cost.effort(bytes, how_[i].chunk));
        std::erase_if(fast, [&](std::size_t i) { return effort[i] > least * similar_effort; });
        if (std::find(fast.begin(), fast.end(), chosen_) != fast.end()) return chosen_;
        return *std::min_element(fast.begin(), fast.end(), [&](std::size_t a, std::size_t b) {
            const auto key = [&](std::size_t i) {
                return std::tuple(list_[i].what.stages.size(), effort[i], time_at(i, bytes));
            };
            return key(a) < key(b);
        });
    }

    // ---- where lanes may get into each other's way ----

    using option = std::pair<std::size_t, tuning>;  // a candidate and how it runs

    // A choice that simulations find about as fast as its price stands. Else others are simulated, those of the least
    // price first, which is about the least that a simulation comes to, and the floor in any case.
    option try_out(option chosen, const std::vector<std::size_t>& good, std::int64_t low, std::int64_t high) {
        const auto simulated = [&](option& o) {
            const auto time = trials_.time(list_[o.first], o.second.lanes, o.second.chunk, high);
            if (time) o.second.simulated = *time;
            return time.has_value();
        };
        option own = chosen;
        if (!simulated(own)) return untried(chosen, good, static_cast<double>(high));
        if (own.second.simulated <= time_at(own.first, static_cast<double>(high)) * hindered) return chosen;
        option unhindered = chosen;
        unhindered.second.lanes = max_lanes(machine_, list_[chosen.first]);
        std::vector<option> open{own, unhindered};
        for (const std::size_t f : floor_) open.emplace_back(f, how_[f]);
        const std::size_t in_any_case = open.size();
        for (option& o : options(good, low, high)) open.push_back(std::move(o));
        std::vector<option> tried;
        double best = own.second.simulated;
        for (option& o : open) {
            if (tried.size() >= in_any_case && (tried.size() == most_trials || o.second.time > best * above)) break;
            if (!simulated(o)) break;
            best = std::min(best, o.second.simulated);
            tried.push_back(std::move(o));
        }
        return best_of(tried, high);
    }

    // Where a simulation would take too long, there are more lanes: they make up for most of what lanes may lose to one
    // another.
    option untried(option chosen, const std::vector<std::size_t>& good, double high) const {
        if (chosen.second.lanes == 1) return chosen;
        const bool free = machine_.shared_cores() == 0 && takes_links(machine_);
        if (free) chosen.first = with_less_waiting(chosen.first, good, high);
        chosen.second = how_[chosen.first];
        chosen.second.lanes = std::max(max_lanes(machine_, list_[chosen.first]), free ? untried_lanes(machine_) : 1);
        return chosen;
    }

    // Lanes lose most in `halving`, where each step goes to another rank and waits for the sends before it, and next
    // where a level has several stages, which meet on its links. So of what has lanes and an equal price, something
    // with less of that and with the least start-ups in a row, if it does not take much more of the processors.
    std::size_t with_less_waiting(std::size_t chosen, const std::vector<std::size_t>& good, double high) const {
        const auto waits = [&](std::size_t i) {
            const std::vector<stage>& stages = list_[i].what.stages;
            std::pair<int, int> halvings_and_meetings;
            for (std::size_t s = 0; s < stages.size(); ++s) {
                halvings_and_meetings.first += stages[s].algorithm == "halving";
                halvings_and_meetings.second += s > 0 && stages[s].levels.front() == stages[s - 1].levels.back();
            }
            return halvings_and_meetings;
        };
        const auto effort = [&](std::size_t i) { return list_[i].cost.effort(high, how_[i].chunk); };
        const auto key = [&](std::size_t i) { return std::pair(waits(i), list_[i].cost.time(1, 1, 1)); };
        const double most = effort(chosen) * untried_effort;
        std::size_t best = chosen;
        for (const std::size_t i : equally_fast(good, high)) {
            if (how_[i].lanes == 1 || waits(i) >= waits(chosen)) continue;
            if (effort(i) <= most && key(i) < key(best)) best = i;
        }
        return best;
    }

    // Of what is about equally fast, and not slower than the floor, the stages of the choice, else one of the floor,
    // else what takes the least of the processors.
    option best_of(std::vector<option> tried, std::int64_t high) const {
        const std::size_t wanted = tried.front().first;
        double best = std::numeric_limits<double>::infinity(), floor = best;
        for (const auto& [i, how] : tried) {
            best = std::min(best, how.simulated);
            if (is_of_floor(i) && how == how_[i]) floor = std::min(floor, how.simulated);
        }
        std::erase_if(tried, [&](const option& o) { return o.second.simulated > std::min(best * alike, floor); });
        const auto key = [&](const option& o) {
            return std::tuple(o.first != wanted, !is_of_floor(o.first),
                              list_[o.first].cost.effort(static_cast<double>(high), o.second.chunk));
        };
        return *std::min_element(tried.begin(), tried.end(),
                                 [&](const option& a, const option& b) { return key(a) < key(b); });
    }

    bool is_of_floor(std::size_t index) const { return std::find(floor_.begin(), floor_.end(), index) != floor_.end(); }

    // Of candidates that differ in algorithms alone the one with the best price; each in all its ways that are nowhere
    // predicted slower than the floor but for what prices take for equal, by their price.
    std::vector<option> options(const std::vector<std::size_t>& good, std::int64_t low, std::int64_t high) const {
        std::map<std::string, std::size_t> best_of_kind;
        for (const std::size_t i : good) {
            const auto [known, is_new] = best_of_kind.try_emplace(key_of_places(list_[i].what.stages), i);
            if (!is_new && better(i, known->second, static_cast<double>(high))) known->second = i;
        }
        std::map<double, double> floor = floor_between(low, high);
        for (auto& [bytes, time] : floor) time *= tie;
        std::vector<option> result;
        for (const auto& [kind, i] : best_of_kind)
            for (const tuning& t : tunings(machine_, list_[i], high))
                if (is_above(i, t, floor)) result.emplace_back(i, t);
        std::stable_sort(result.begin(), result.end(),
                         [](const option& a, const option& b) { return a.second.time < b.second.time; });
        return result;
    }

    bool better(std::size_t a, std::size_t b, double bytes) const {
        if (time_at(a, bytes) * equal < time_at(b, bytes)) return true;
        return time_at(a, bytes) <= time_at(b, bytes) * equal &&
               list_[a].cost.effort(bytes, how_[a].chunk) < list_[b].cost.effort(bytes, how_[b].chunk);
    }

    static constexpr std::size_t most_trials = 16;
    static constexpr double far_off = 1.5;       // times the best price
    static constexpr double untried_effort = 2;  // times that of the choice
    static constexpr double hindered = 1.05;     // times the price, beyond which lanes are in each other's way
    static constexpr double above = 1.1;         // times a simulation that a price may be
    static constexpr double alike = 1.05;        // simulations this close say nothing

    const hierarchy& machine_;
    const std::vector<priced_candidate>& list_;
    std::vector<std::size_t> floor_;
    trials trials_;
    std::vector<std::size_t> open_;  // candidates at the current size
    std::vector<tuning> how_;        // of each of these
    std::size_t chosen_ = nothing;   // at the size below
    std::vector<rule> rules_;
};

}  // namespace

prediction predict(const hierarchy& machine, const std::vector<stage>& stages, std::int64_t bytes, int lanes,
                   std::int64_t chunk, collective what) {
    return pricer(machine).price_stages(stages, what).explain(static_cast<double>(bytes), lanes, chunk);
}

double limit(const hierarchy& machine, std::int64_t bytes, collective what) {
    const auto rate = [&](int l) { return machine.levels[static_cast<std::size_t>(l)].bandwidth; };
    return limit(machine, bytes, rate, 0, what);
}

// What a child of a level sends or receives of all ranks' blocks: its own, or all others.
double exchange_of(const tree& t, int l, int child) {
    const double own = static_cast<double>(t.first_rank(l - 1, child + 1) - t.first_rank(l - 1, child)) / t.ranks();
    return std::max(own, 1 - own);
}

// A torus is cut into its nodes, which have links in all dimensions, and by each dimension into slabs, which have those
// of that dimension to both sides: how many there are, and what leaves one [B/s].
std::vector<std::pair<double, double>> torus_cuts(const hierarchy& machine, const std::function<double(int)>& rate) {
    std::vector<std::pair<double, double>> cuts;
    const int first = machine.torus_level();
    if (first == machine.depth()) return cuts;
    const double nodes = machine.shape.members(first);
    double of_node = 0;
    for (int l = first; l < machine.depth(); ++l) {
        const double size = machine.shape.children(l, 0), children = machine.shape.members(l);
        of_node += rate(l) * children / nodes;
        cuts.emplace_back(size, rate(l) * children / size);
    }
    cuts.emplace_back(nodes, of_node);
    return cuts;
}

// Take the n children of a level in the whole machine, each with a link of rate U. To combine an element takes n - 1
// transfers between children, to hand the result (or a block) to all another n - 1, and each leaves some child:
// (n-1) N bytes over n outgoing links, once each way that the collective goes. One child alone demands N / min U, which
// is more where its link is slow; and that is all that a root demands.
double limit(const hierarchy& machine, std::int64_t bytes, const std::function<double(int)>& rate, double free_bytes,
             collective what) {
    const int ways = goes_up(what) + goes_down(what);
    double time = 0;
    for (const auto& [n, out] : torus_cuts(machine, rate))
        time =
            std::max(time, ((has_root(what) ? 1 : ways * (n - 1) / n) * static_cast<double>(bytes) - free_bytes) / out);
    for (int l = 0; l < machine.torus_level(); ++l) {
        const level& of = machine.levels[static_cast<std::size_t>(l)];
        const double n = machine.shape.members(l), measured = rate(l) / of.bandwidth;
        if (n < 2) continue;
        double sum = 0;
        for (const double each : of.rates) sum += each * measured;
        if (of.rates.empty()) sum = n * rate(l);
        const auto add = [&](double vectors, double at_rate) {
            time = std::max(time, (vectors * static_cast<double>(bytes) - free_bytes) / at_rate);
        };
        if (!has_root(what)) add(ways * (n - 1) / n, sum / n);
        // What one child alone must send or receive.
        const int different = of.rates.empty() && !has_blocks(what) ? 1 : machine.shape.members(l);
        for (int child = 0; child < different; ++child)
            add(has_blocks(what) ? exchange_of(machine.shape, l, child) : 1, machine.rate(l, child) * measured);
    }
    return time;
}

rule tuned(const hierarchy& machine, const candidate& c, std::int64_t bytes, collective what) {
    return rule_of(machine, c, tune(machine, {c, pricer(machine).price_stages(c.stages, what)}, bytes), bytes, what);
}

std::vector<ranked> rank_candidates(const hierarchy& machine, std::int64_t bytes, collective what) {
    pricer prices(machine);
    std::vector<ranked> result;
    for (priced_candidate& c : search(prices, what)) {
        rule how = rule_of(machine, c.what, tune(machine, c, bytes), bytes, what);
        result.push_back({std::move(c.what), std::move(how)});
    }
    std::stable_sort(result.begin(), result.end(),
                     [](const ranked& a, const ranked& b) { return a.how.predicted < b.how.predicted; });
    return result;
}

std::vector<rule> rules_for(const hierarchy& machine, std::string_view origin, collective what) {
    pricer prices(machine);
    std::vector<priced_candidate> list;
    if (origin == "staged" && !has_root(what)) {
        for (priced_candidate& c : search(prices, what))
            if (std::all_of(c.what.stages.begin(), c.what.stages.end(),
                            [](const stage& s) { return s.how == mode::scatter; }))
                list.push_back(std::move(c));
    } else {
        list.push_back(priced_baseline(prices, origin, what));
    }
    return rule_maker(machine, list, {}).run();
}

recipe make_plan(const std::string& name, const hierarchy& machine) {
    recipe r;
    r.name = name;
    r.made_by = fmt::format("terrace {}", version());
    r.machine = machine;
    pricer prices(machine);
    for (const collective what : all_collectives) {
        const std::vector<priced_candidate> list = search(prices, what);
        r.rules[what] = rule_maker(machine, list, {0, 1}).run();  // flat ring and two-level come first
    }
    return finished(std::move(r));
}

}  // namespace terrace
