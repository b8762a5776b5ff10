#include "planner/planner.hpp"

#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <terrace/version.hpp>

#include "base/quiet_task.hpp"
#include "plan/plan_yaml.hpp"
#include "planner/choose.hpp"

namespace terrace::detail {

namespace {

// Collectives of one family share phases, so one pricer counts these once. Family 0 takes the longest.
constexpr std::size_t families = 3;
std::size_t family_of(collective what) { return row_of(what).exchange ? 1 : row_of(what).has_root() ? 2 : 0; }

// Makes a plan whose rules are made of all candidates of each collective.
template <class Rules>
plan_data plan_with(const std::string& name, const hierarchy& machine, Rules&& rules) {
    plan_data r;
    r.name = name;
    r.made_by = fmt::format("terrace {}", version());
    r.machine = machine;
    std::map<collective, std::vector<priced_candidate>> found;
    for (const collective what : all_collectives) found[what], r.rules[what];
    for_each_on_all_cores(families, [&](std::size_t family) {
        pricer prices(machine);
        for (auto& [what, list] : found)
            if (family_of(what) == family) list = search(prices, what);
    });
    // Starts with the longest ones, so all cores finish at about the same time.
    std::vector order(all_collectives.begin(), all_collectives.end());
    std::ranges::stable_sort(order, {}, [](collective what) {
        return std::tuple(row_of(what).has_root(), !row_of(what).exchange, !row_of(what).blocks);
    });
    for_each_on_all_cores(order.size(),
                          [&](std::size_t i) { r.rules.at(order[i]) = rules(found.at(order[i]), order[i]); });
    return finished(std::move(r));
}

}  // namespace

prediction predict(const hierarchy& machine, const std::vector<stage>& stages, std::int64_t bytes, int lanes,
                   std::int64_t chunk, collective what) {
    return pricer(machine).price_stages(stages, what).explain(static_cast<double>(bytes), lanes, chunk);
}

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

std::vector<rule> tuned(const hierarchy& machine, const candidate& c, std::span<const std::int64_t> sizes,
                        collective what) {
    const priced_candidate priced{c, pricer(machine).price_stages(c.stages, what)};
    std::vector<rule> rules;
    for (const std::int64_t bytes : sizes)
        rules.push_back(rule_of(c, tune(machine, priced, bytes), bytes, limit(machine, bytes, what)));
    return rules;
}

std::vector<ranked> rank_candidates(const hierarchy& machine, std::int64_t bytes, collective what) {
    pricer prices(machine);
    const double least = limit(machine, bytes, what);
    std::vector<ranked> result;
    const std::vector<priced_candidate> list = search(prices, what);
    for (const choice& c : cheapest(machine, list, bytes, list.size()))
        result.push_back({c.what->what, rule_of(c.what->what, c.how, bytes, least)});
    return result;
}

std::vector<rule> rules_for(const hierarchy& machine, std::string_view origin, collective what) {
    hierarchy exact = machine;
    for (level& l : exact.levels) l.wire = wire_type::exact;
    pricer prices(exact);
    std::vector<priced_candidate> list;
    if (origin == "staged" && (row_of(what).exchange || !row_of(what).has_root())) {
        list = search(prices, what);
        std::erase_if(list, [](const priced_candidate& c) { return !c.what.only_scatters(); });
    } else {
        const candidate c = named_baseline(prices, origin, what);
        list.push_back({c, prices.price_stages(c.stages, what)});
    }
    return make_rules(exact, list);
}

plan_data make_plan(const std::string& name, const hierarchy& machine, bool reproducible, const rules_made& made) {
    return plan_with(name, machine, [&](const std::vector<priced_candidate>& list, collective what) {
        std::vector<rule> rules = make_rules(machine, list, reproducible && row_of(what).up);
        if (made) made(what, rules);
        return rules;
    });
}

plan_data replanned(plan_data p, const hierarchy& machine, std::span<const collective> some, bool reproducible) {
    pricer prices(machine);
    for (const collective what : some)
        p.rules[what] = make_rules(machine, search(prices, what), reproducible && row_of(what).up);
    p.machine = machine;
    p.verified.clear();
    return finished(std::move(p));
}

plan_data plan_by_place(const std::string& name, const hierarchy& machine, std::size_t place) {
    return plan_with(name, machine, [&](const std::vector<priced_candidate>& list, collective) {
        return rules_by_place(machine, list, place);
    });
}

}  // namespace terrace::detail
