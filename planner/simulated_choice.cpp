#include "planner/simulated_choice.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "planner/devices.hpp"
#include "planner/policy.hpp"
#include "schedule/registry.hpp"

namespace terrace::detail {

namespace {

bool simulate(trials& t, const screen& s, choice& c, std::int64_t bytes) {
    const auto found = t.time(s[c.candidate], c.how.lanes, c.how.chunk, bytes);
    if (!found) return false;
    c.how.simulated = *found;
    return true;
}

bool is_cheaper(const screen& s, std::size_t a, std::size_t b, double bytes) {
    if (s.time(a, bytes) * policy.equal < s.time(b, bytes)) return true;
    return s.time(a, bytes) <= s.time(b, bytes) * policy.equal && s.effort(a, bytes) < s.effort(b, bytes);
}

// Returns the cheapest one of all candidates that differ in their algorithms alone, by their stages' places.
std::map<std::string, std::size_t> cheapest_by_places(const screen& s, const std::vector<std::size_t>& among,
                                                      double bytes) {
    std::map<std::string, std::size_t> result;
    for (const std::size_t i : among) {
        const auto [known, is_new] = result.try_emplace(key_of_layout(s[i].what.stages), i);
        if (!is_new && is_cheaper(s, i, known->second, bytes)) known->second = i;
    }
    return result;
}

// Returns what else to simulate, the least price first: these candidates with all lanes and chunks by which they are
// nowhere predicted slower than the floor, or as good as equal.
std::vector<choice> alternatives(const screen& s, const std::vector<std::size_t>& fast_enough, std::int64_t low,
                                 std::int64_t high) {
    const screen::floor_times floor = s.floor_between(low, high, policy.worth_a_lane);
    std::vector<choice> result;
    for (const auto& [places, i] : cheapest_by_places(s, fast_enough, static_cast<double>(high)))
        for (const tuning& t : tunings(s.machine(), s[i], high))
            if (s.is_fast_enough(i, t, floor)) result.push_back({i, t});
    std::stable_sort(result.begin(), result.end(),
                     [](const choice& a, const choice& b) { return a.how.time < b.how.time; });
    return result;
}

// Counts what makes lanes of a candidate wait for one another: stages whose algorithm does, and then stages that share
// a level with the one before, which meet on its links.
std::pair<int, int> hindrances(const screen& s, std::size_t i) {
    const std::vector<stage>& stages = s[i].what.stages;
    std::pair<int, int> found;
    for (std::size_t k = 0; k < stages.size(); ++k) {
        found.first += find_algorithm(stages[k])->hinders_lanes;
        found.second += k > 0 && stages[k].levels.front() == stages[k - 1].levels.back();
    }
    return found;
}

bool is_rooted(const screen& s) { return row_of(s[0].cost.what()).has_root(); }

// Returns the candidate that hinders lanes the least, and of these the one with the least start-ups in a row: of those
// that are predicted as fast as the chosen one, run in lanes, and occupy processors not much longer.
std::size_t with_less_waiting(const screen& s, std::size_t chosen, const std::vector<std::size_t>& among,
                              double bytes) {
    const auto key = [&](std::size_t i) { return std::pair(hindrances(s, i), s[i].cost.time(1, 1, 1)); };
    const double most = s.effort(chosen, bytes) * policy.untried_effort;
    std::size_t best = chosen;
    for (const std::size_t i : equally_fast(s, among, bytes)) {
        if (s.how(i).lanes == 1 || hindrances(s, i) >= hindrances(s, chosen)) continue;
        if (s.effort(i, bytes) <= most && key(i) < key(best)) best = i;
    }
    return best;
}

// More lanes make up for most of what lanes may lose to one another. Where NCCL or MPI move the data, more lanes have
// not been seen to help. With a root there are many anyway.
choice without_simulation(const screen& s, choice predicted, const std::vector<std::size_t>& fast_enough,
                          double bytes) {
    if (predicted.how.lanes == 1 || is_rooted(s)) return predicted;
    const bool helps = moves_by_links(s.machine());
    if (helps) predicted.candidate = with_less_waiting(s, predicted.candidate, fast_enough, bytes);
    predicted.how = s.how(predicted.candidate);
    predicted.how.lanes =
        std::max(max_lanes(s.machine(), s[predicted.candidate]), helps ? untried_lanes(s.machine()) : 1);
    return predicted;
}

// Returns the cheapest candidates, the least price first. Without a root, one of those that differ in their algorithms
// alone.
std::vector<choice> cheapest_candidates(const screen& s, std::int64_t bytes) {
    std::vector<std::size_t> among = s.tuned();
    if (!is_rooted(s)) {
        among.clear();
        for (const auto& [places, i] : cheapest_by_places(s, s.tuned(), static_cast<double>(bytes))) among.push_back(i);
    }
    std::vector<choice> result;
    for (const std::size_t i : among) result.push_back({i, s.how(i)});
    std::stable_sort(result.begin(), result.end(),
                     [](const choice& a, const choice& b) { return a.how.time < b.how.time; });
    result.resize(std::min(result.size(), policy.most_trials));
    return result;
}

// Returns what is simulated in any case: the choice; without a root also the same with all lanes, and the floor.
std::vector<choice> first_trials(const screen& s, const choice& own) {
    std::vector<choice> result{own};
    if (is_rooted(s)) return result;
    result.push_back(own);
    result.back().how.lanes = max_lanes(s.machine(), s[own.candidate]);
    for (const std::size_t f : s.floor()) result.push_back({f, s.how(f)});
    return result;
}

}  // namespace

bool worth_simulating(const screen& s, const choice& c, std::int64_t bytes) {
    const price& cost = s[c.candidate].cost;
    const bool in_messages = cost.crosses_network() || on_gpus(s.machine());
    if (is_rooted(s)) {
        const bool is_long = c.how.lanes > 1 || bytes > policy.largest_uncut;
        return in_messages && is_long && s.machine().nics.rail_count() > 1;
    }
    if (in_messages && c.how.lanes > 1) return true;
    return (in_messages || row_of(cost.what()).blocks) && bytes > policy.largest_uncut && !s.floor().empty();
}

choice choose_by_simulation(trials& t, const screen& s, const choice& predicted,
                            const std::vector<std::size_t>& fast_enough, std::int64_t low, std::int64_t high) {
    const auto bytes = static_cast<double>(high);
    choice own = predicted;
    if (!simulate(t, s, own, high)) return without_simulation(s, predicted, fast_enough, bytes);
    if (own.how.simulated <= s.time(own.candidate, bytes) * policy.hindered) return predicted;
    std::vector<choice> open = first_trials(s, own);
    const std::size_t in_any_case = open.size();
    for (const choice& c : is_rooted(s) ? cheapest_candidates(s, high) : alternatives(s, fast_enough, low, high))
        open.push_back(c);
    std::vector<choice> tried;
    double best = own.how.simulated;
    const std::int64_t for_later = t.left() - t.left() / policy.sizes_to_come;
    for (choice& c : open) {
        const bool enough =
            tried.size() == policy.most_trials || t.left() < for_later || c.how.time > best * policy.above_simulated;
        if (tried.size() >= in_any_case && enough) break;
        if (!simulate(t, s, c, high)) break;
        best = std::min(best, c.how.simulated);
        tried.push_back(c);
    }
    return pick_simulated(s, std::move(tried), predicted.candidate, high);
}

choice choose_reproducible(trials& t, const screen& s, const choice& predicted, std::int64_t bytes) {
    choice best = predicted;
    if (!simulate(t, s, best, bytes)) return predicted;
    std::vector<choice> open = cheapest_candidates(s, bytes);
    for (choice& c : open)
        if (simulate(t, s, c, bytes) && c.how.simulated * policy.worth_a_lane < best.how.simulated) best = c;
    return best;
}

}  // namespace terrace::detail
