#include "tools/terrace/plan_proofs.hpp"

#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "base/quiet_task.hpp"
#include "tools/terrace/proof.hpp"

namespace terrace::detail {

namespace {

// Instructions of all ranks, in the whole programs that are proved of a collective: all of them take a tenth of a
// second or two.
constexpr std::int64_t proof_budget = 12'500;

// Up to so many ranks, what does not fit is proved by groups: with root 0 (a second or two), and with the other roots
// (a tenth of one).
constexpr int most_by_groups = 1000, most_by_groups_of_roots = 40;

}  // namespace

plan_proofs::proved plan_proofs::proofs_of(collective what, const std::vector<rule>& rules) {
    plan_data part;
    part.machine = machine_;
    part.rules[what] = rules;
    const std::vector<claim> claims = claims_of(part);
    proved made;
    made.rules = rules;
    made.claims = claims.size();
    std::map<std::size_t, std::int64_t> works;  // by rule
    std::int64_t spent = 0;
    for (const claim& c : claims) {
        const auto [work, is_new] = works.try_emplace(c.rule);
        if (is_new) work->second = work_of(part, c);
        const bool fits = spent + work->second <= proof_budget;
        if (!fits && machine_.ranks() > (c.root == 0 ? most_by_groups : most_by_groups_of_roots)) continue;
        if (fits) spent += work->second;
        if (const auto fault = fits ? terrace::detail::prove(part, c) : prove_by_groups(part, c, groups_)) {
            made.fault = fmt::format("{}: {}", describe(part, c), *fault);
            break;
        }
        ++(fits ? made.whole : made.by_groups);
    }
    return made;
}

void plan_proofs::prove(collective what, const std::vector<rule>& rules) {
    proved made = proofs_of(what, rules);
    const std::scoped_lock lock(mutex_);
    done_[what] = std::move(made);
}

void plan_proofs::prove_rest(const plan_data& plan) {
    std::vector<collective> open;
    for (const auto& [what, rules] : plan.rules) {
        const auto known = done_.find(what);
        if (known == done_.end() || known->second.rules != rules) open.push_back(what);
    }
    for_each_on_all_cores(open.size(), [&](std::size_t i) { prove(open[i], plan.rules.at(open[i])); });
}

std::optional<std::string> plan_proofs::fault() const {
    for (const auto& [what, of] : done_)
        if (of.fault) return of.fault;
    return {};
}

std::string plan_proofs::text() const {
    std::string counts = "all rules at counts 0, 1, P-1, P, 2P+3 and on both sides of every bound";
    proved all;
    for (const auto& [what, of] : done_) {
        all.claims += of.claims;
        all.whole += of.whole;
        all.by_groups += of.by_groups;
    }
    if (all.whole == all.claims) return counts;
    if (machine_.ranks() > most_by_groups)
        return fmt::format(
            "{} of {} programs, of each collective what fits {} instructions; terrace verify proves the rest",
            all.whole, all.claims, proof_budget);
    return fmt::format(
        "{}: {} programs whole, {} by groups{}", counts, all.whole, all.by_groups,
        all.whole + all.by_groups == all.claims ? "" : " with root 0; terrace verify proves other roots");
}

}  // namespace terrace::detail
