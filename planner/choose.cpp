#include "planner/choose.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "planner/policy.hpp"
#include "planner/trials.hpp"

namespace terrace::detail {

std::vector<choice> cheapest(const hierarchy& machine, std::span<const priced_candidate> list, std::int64_t bytes,
                             std::size_t most) {
    std::vector<choice> found;
    for (const priced_candidate& c : list) {
        if (found.size() == most && c.cost.at_least(static_cast<double>(bytes)) >= found.back().how.time) continue;
        const choice made{&c, tune(machine, c, bytes)};
        found.insert(std::ranges::upper_bound(found, made.how.time, {}, [](const choice& o) { return o.how.time; }),
                     made);
        if (found.size() > most) found.pop_back();
    }
    return found;
}

namespace {

// Returns the candidates to simulate, in this order: the cheapest candidate, the baselines, and the other cheap ones.
std::vector<choice> for_trials(const hierarchy& machine, std::span<const priced_candidate> list, std::int64_t bytes) {
    std::vector<choice> found = cheapest(machine, list, bytes, policy.most_trials);
    const auto is_baseline = [](const choice& c) { return c.what->what.is_baseline(); };
    for (const priced_candidate& c : list)
        if (c.what.is_baseline() && std::ranges::find(found, &c, &choice::what) == found.end())
            found.push_back({&c, tune(machine, c, bytes)});
    std::stable_partition(found.begin() + 1, found.end(), is_baseline);
    return found;
}

// Returns the best choice. Among choices nearly as fast as the fastest, it is the one whose ranks send the fewest
// messages at once, since real flows on a link share it less evenly than simulated ones
// (docs/measurements/random-clusters.md); then the one with the least processor time.
const choice& best_of(const std::vector<choice>& open, std::int64_t bytes) {
    const double most = std::ranges::min(open, {}, &choice::time).time() * policy.worth_it;
    const auto key = [&](const choice& c) {
        const price& cost = c.what->cost;
        return std::tuple(c.time() > most, cost.sent_at_once(), cost.effort(static_cast<double>(bytes), c.how.chunk));
    };
    return *std::ranges::min_element(open, {}, key);
}

// Returns rules for all sizes from the choice for each size.
std::vector<rule> rules_of(const hierarchy& machine, const std::vector<choice>& by_size) {
    const double limit_of_byte = limit(machine, 1, by_size.front().what->cost.what());
    std::vector<rule> rules;
    for (std::size_t i = 0; i < by_size.size(); ++i) {
        const std::int64_t bytes = policy.size(i);
        const choice& c = by_size[i];
        rule next = rule_of(c.what->what, c.how, bytes, limit_of_byte * static_cast<double>(bytes));
        if (!rules.empty() && run_alike(rules.back(), next)) rules.back() = std::move(next);
        else rules.push_back(std::move(next));
    }
    rules.back().up_to = rule::no_bound;
    return rules;
}

// Returns the fastest candidate by simulation. Candidates are not simulated if their lower bound is too long. If one is
// too long to simulate, candidates with higher prices are left out, since nothing shows that they are faster; the
// candidate of the size before is then preferred if its price is as good as the lowest.
choice fastest(trials& tried, std::vector<choice> open, std::int64_t bytes, const priced_candidate* before) {
    if (open.size() == 1) return open.front();
    constexpr double endless = std::numeric_limits<double>::infinity();
    double most = endless, dearest = endless;  // bounds on time and price
    std::vector<choice> simulated;
    for (choice& c : open) {
        if (c.how.time > dearest || c.what->cost.at_least(static_cast<double>(bytes)) > most) continue;
        const auto time = tried.time(*c.what, c.how, bytes, most);
        if (!time) dearest = c.how.time;
        if (!time || *time > most) continue;
        c.how.simulated = *time;
        simulated.push_back(c);
        most = std::min(most, *time * policy.equal);
    }
    const auto same = std::ranges::find(open, before, &choice::what);
    if (same != open.end() && same->how.time >= dearest && same->how.time <= open.front().how.time * policy.equal)
        return *same;
    std::erase_if(simulated, [&](const choice& c) { return c.how.time > dearest; });
    return best_of(simulated.empty() ? open : simulated, bytes);
}

}  // namespace

std::vector<rule> make_rules(const hierarchy& machine, std::span<const priced_candidate> list, bool reproducible) {
    trials tried(machine, reproducible);
    std::vector<choice> by_size;
    for (std::size_t i = 0; i < policy.sizes(); ++i) {
        const std::int64_t bytes = policy.size(i);
        tried.begin_size();
        const priced_candidate* before = by_size.empty() ? nullptr : by_size.back().what;
        by_size.push_back(fastest(tried, for_trials(machine, list, bytes), bytes, before));
    }
    return rules_of(machine, by_size);
}

std::vector<rule> rules_by_place(const hierarchy& machine, std::span<const priced_candidate> list, std::size_t place) {
    std::vector<choice> by_size;
    for (std::size_t i = 0; i < policy.sizes(); ++i)
        by_size.push_back(cheapest(machine, list, policy.size(i), place + 1).back());
    return rules_of(machine, by_size);
}

}  // namespace terrace::detail
