#include "planner/kept_rules.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "plan/limit.hpp"
#include "plan/plan_yaml.hpp"
#include "planner/planner.hpp"
#include "planner/policy.hpp"
#include "planner/tuning.hpp"

namespace terrace::detail {

namespace {

// A profiled call, and the rule that ran it.
struct timed_call {
    const rule* by;
    std::int64_t above;  // [bytes] the rule is for calls above this size
    double time;
};

using calls_by_size = std::map<std::int64_t, timed_call>;

// Returns true if a rule for one of these machines does the same on the other.
bool share_rules(const hierarchy& a, const hierarchy& b) {
    const auto alike = [](const level& x, const level& y) {
        return x.medium == y.medium && x.wire == y.wire && x.ring == y.ring;
    };
    return a.shape == b.shape && std::ranges::equal(a.levels, b.levels, alike);
}

std::map<collective, calls_by_size> fastest_calls(const hierarchy& machine, const std::vector<profile>& profiles) {
    std::map<collective, calls_by_size> all;
    for (const profile& p : profiles) {
        if (!share_rules(p.plan.machine, machine)) continue;
        for (const profiled_call& c : p.calls) {
            const rule& by = p.plan.choose(c.what, c.bytes);
            const bool first = &by == &p.plan.rules.at(c.what).front();
            const timed_call made{&by, first ? 0 : (&by - 1)->up_to, c.time};
            const auto [known, is_new] = all[c.what].try_emplace(c.bytes, made);
            if (!is_new && c.time < known->second.time) known->second = made;
        }
    }
    return all;
}

// A call counts for sizes from half to twice its own, but not for sizes of the next longer call.
std::int64_t begin_of(const calls_by_size& all, calls_by_size::const_iterator call) {
    const std::int64_t half = call->first / 2;
    return call == all.begin() ? half : std::max(half, std::prev(call)->first);
}
std::int64_t end_of(const calls_by_size& all, calls_by_size::const_iterator call) {
    const std::int64_t bytes = call->first, twice = bytes > rule::no_bound / 2 ? rule::no_bound : 2 * bytes;
    const auto next = std::next(call);
    return next == all.end() ? twice : std::min(twice, begin_of(all, next));
}

double price_of(const hierarchy& machine, const rule& r, std::int64_t bytes, collective what) {
    return predict(machine, r.stages, bytes, r.lanes, r.chunk, what).time;
}

using rules_by_end = std::map<std::int64_t, rule>;

// Replaces the rules for more than `above` and up to `up_to` bytes by another one.
void put(rules_by_end& rules, std::int64_t above, std::int64_t up_to, const rule& other) {
    if (above > 0) rules.try_emplace(above, rules.lower_bound(above)->second);
    rules.erase(rules.upper_bound(above), rules.upper_bound(up_to));
    rules[up_to] = other;
    rules[up_to].at = 0;  // predictions of another plan do not apply
}

// Returns the rules with adjacent ones that run alike joined, and with predictions at their new bounds.
std::vector<rule> tidied(const hierarchy& machine, collective what, const rules_by_end& rules) {
    std::vector<rule> all;
    for (const auto& [end, r] : rules) {
        if (all.empty() || !run_alike(all.back(), r)) all.emplace_back();
        all.back() = r, all.back().up_to = end;
    }
    for (rule& r : all) {
        const std::int64_t size = r.up_to == rule::no_bound ? policy.largest_size : r.up_to;
        if (r.at == size) continue;
        r.at = size;
        r.predicted = price_of(machine, r, r.at, what);
        r.simulated = 0;
        r.limit = limit(machine, r.at, what);
    }
    return all;
}

}  // namespace

plan_that_keeps keep_what_ran(plan_data plan, const std::vector<profile>& profiles) {
    plan_that_keeps result{std::move(plan)};
    const hierarchy& machine = result.plan.machine;
    for (const auto& [what, calls] : fastest_calls(machine, profiles)) {
        const std::vector<rule> own = result.plan.rules.at(what);
        rules_by_end rules;
        for (const rule& r : own) rules[r.up_to] = r;
        for (auto call = calls.begin(); call != calls.end(); ++call) {
            const auto& [bytes, ran] = *call;
            const rule& planned = *std::ranges::find_if(own, [&](const rule& r) { return call->first <= r.up_to; });
            if (run_alike(planned, *ran.by)) continue;
            // Scales the prediction by the ratio of simulation to price at the plan's own size.
            const double off = planned.simulated > 0 ? planned.simulated / planned.predicted : 1;
            const double promised = price_of(machine, planned, bytes, what) * off;
            if (promised * policy.equal < std::min(ran.time, price_of(machine, *ran.by, bytes, what))) continue;
            const std::int64_t above = std::max(ran.above, begin_of(calls, call)),
                               up_to = std::min(ran.by->up_to, end_of(calls, call));
            put(rules, above, up_to, *ran.by);
            const double ratio = ran.time / promised;
            if (result.kept.empty() || result.kept.back().what != what || result.kept.back().up_to != above)
                result.kept.push_back({what, above, above, 0, ratio, ratio});
            kept_range& range = result.kept.back();
            range.up_to = up_to, ++range.sizes;
            range.least = std::min(range.least, ratio), range.most = std::max(range.most, ratio);
        }
        result.plan.rules.at(what) = tidied(machine, what, rules);
    }
    result.plan = finished(std::move(result.plan));
    return result;
}

}  // namespace terrace::detail
