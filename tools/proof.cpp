#include "tools/proof.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/units.hpp"
#include "plan/plan_yaml.hpp"
#include "schedule/compose.hpp"
#include "schedule/lower.hpp"
#include "schedule/slice.hpp"
#include "schedule/verify.hpp"

namespace terrace {

namespace {

constexpr std::int64_t element = 4;  // bytes: float32

const std::vector<rule>& rules_of(const recipe& plan) { return plan.rules.at(collective::allreduce); }

composition lay_out(const recipe& plan, const claim& c) {
    return compose(plan.machine, rules_of(plan)[c.rule].stages, c.count, quantum_of(element));
}

// Elements of the smallest and the largest message a rule is for (of the size it was made for, where it has no bound).
std::vector<std::int64_t> bounds(const std::vector<rule>& rules, std::size_t r) {
    std::vector<std::int64_t> counts;
    if (r > 0) counts.push_back(rules[r - 1].up_to / element + 1);
    counts.push_back(rules[r].at / element);
    return counts;
}

}  // namespace

recipe read_runnable_plan(const std::filesystem::path& file) {
    recipe plan = read_plan(file);
    if (!plan.rules.contains(collective::allreduce))
        throw input_error(file.string(), 0, 0, "the plan has no rules for allreduce; plan again");
    const std::vector<rule>& rules = rules_of(plan);
    for (std::size_t r = 0; r < rules.size(); ++r) {
        try {
            compose(plan.machine, rules[r].stages, plan.machine.ranks(), 1);
        } catch (const plan_error& e) {
            throw input_error(file.string(), 0, 0, fmt::format("allreduce.rules[{}].{}", r, e.what()));
        }
    }
    return plan;
}

std::vector<claim> claims_of(const recipe& plan, std::optional<std::int64_t> count) {
    const std::int64_t ranks = plan.machine.ranks();
    const std::vector<rule>& rules = rules_of(plan);
    std::vector<claim> claims;
    for (std::size_t r = 0; r < rules.size(); ++r) {
        std::set<std::int64_t> known;
        const auto add = [&](std::int64_t message) {
            const slicing s = slice(message, element, rules[r]);
            for (const std::int64_t chunk : {s.chunk, s.tail})
                if (known.insert(chunk).second)
                    claims.push_back({r, chunk, fmt::format("a message of {} elements", message)});
        };
        if (count) {
            add(*count);
            continue;
        }
        for (const std::int64_t message : {std::int64_t{0}, std::int64_t{1}, ranks - 1, ranks, 2 * ranks + 3})
            add(message);
        for (const std::int64_t message : bounds(rules, r)) add(message);
    }
    return claims;
}

std::int64_t work_of(const recipe& plan, const claim& c) {
    std::int64_t work = 0;
    for (const composed_stage& s : lay_out(plan, c).stages)
        for (const cohort& k : s.cohorts)
            work += 2 * static_cast<std::int64_t>(k.members.size()) * (s.steps_up + s.steps_down);
    return work;
}

std::optional<std::string> prove(const recipe& plan, const claim& c) {
    std::vector<schedule> programs = generate_all(lay_out(plan, c), collective::allreduce);
    for (schedule& s : programs) s = lower(s, {});
    return find_fault(programs);
}

std::string describe(const recipe& plan, const claim& c) {
    const rule& r = rules_of(plan)[c.rule];
    return fmt::format("rule {} (up to {}), {} elements, from {}", c.rule + 1,
                       r.up_to == rule::no_bound ? "max" : format_bytes(r.up_to), c.count, c.reason);
}

}  // namespace terrace
