#include "tools/terrace/commands.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/quiet_task.hpp"
#include "base/units.hpp"
#include "plan/plan_yaml.hpp"
#include "plan/profile.hpp"
#include "planner/corrections.hpp"
#include "planner/kept_rules.hpp"
#include "planner/planner.hpp"
#include "schedule/group_proof.hpp"
#include "tools/common/output.hpp"
#include "tools/common/output_file.hpp"
#include "tools/common/table.hpp"
#include "tools/terrace/figure_text.hpp"
#include "tools/terrace/proof.hpp"
#include "tools/terrace/summary.hpp"

namespace terrace::detail {

namespace {

// Limit for proofs of whole programs of one collective: instructions of all ranks. All collectives together take a
// tenth of a second or two.
constexpr std::int64_t proof_budget = 12'500;

// Up to this many ranks, other programs are proved by groups: with root 0 (a second or two), and with other roots (a
// tenth of a second).
constexpr int most_by_groups = 1000, most_by_groups_of_roots = 40;

// The proofs that `terrace plan` makes. It proves the claims of `terrace verify` that fit a budget and, on small
// machines, the others by groups. Budgets are counted and not timed, so a cluster has the same plan file everywhere.
class plan_proofs {
public:
    // @param machine must outlive this object
    explicit plan_proofs(const hierarchy& machine) : machine_(machine) {}

    // Proves as much as possible of a collective's rules. Several threads may call it at a time.
    void prove(collective what, const std::vector<rule>& rules) {
        proved made = proofs_of(what, rules);
        const std::scoped_lock lock(mutex_);
        done_[what] = std::move(made);
    }

    // Does the same for collectives of the plan whose rules have not been proved.
    void prove_rest(const plan_data& plan) {
        std::vector<collective> open;
        for (const auto& [what, rules] : plan.rules) {
            const auto known = done_.find(what);
            if (known == done_.end() || known->second.rules != rules) open.push_back(what);
        }
        for_each_on_all_cores(open.size(), [&](std::size_t i) { prove(open[i], plan.rules.at(open[i])); });
    }

    // Returns the first fault found, in the order of collectives; nothing if there is none.
    std::optional<std::string> fault() const {
        for (const auto& [what, of] : done_)
            if (of.fault) return of.fault;
        return {};
    }

    // Returns the extent of the proofs, for the plan file.
    std::string text() const {
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

private:
    struct proved {
        std::vector<rule> rules;
        std::size_t claims = 0, whole = 0, by_groups = 0;  // number of all claims, and of proved ones
        std::optional<std::string> fault;
    };

    proved proofs_of(collective what, const std::vector<rule>& rules) {
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

    const hierarchy& machine_;
    group_proof groups_;
    mutable std::mutex mutex_;
    std::map<collective, proved> done_;
};

// Returns a cluster's name as the name of a file in this directory.
std::string file_name(std::string name) {
    std::replace(name.begin(), name.end(), '/', '_');
    if (name.starts_with('.')) name.front() = '_';
    return name;
}

void print_allreduce(const plan_data& plan) {
    // If nodes have several NICs, other libraries would run the baselines that use all NICs.
    const bool nics = plan.machine.nics.rail_count() > 1;
    const std::string_view flat_name = nics ? "flat-rings" : "flat-ring",
                           two_name = nics ? "two-level-nics" : "two-level";
    const std::vector<rule>& rules = plan.rules.at(collective::allreduce);
    std::vector<std::int64_t> sizes;
    for (const rule& r : rules) sizes.push_back(r.at);
    const std::vector<rule> ring = tuned(plan.machine, baseline(plan.machine, flat_name), sizes),
                            two = tuned(plan.machine, baseline(plan.machine, two_name), sizes);
    table rows(">>>>>><<");
    rows.add({"up to", "predicted", "limit", "of limit", nics ? "flat rings" : "flat ring", std::string(two_name),
              "lanes", "stages"});
    for (std::size_t i = 0; i < rules.size(); ++i) {
        const rule& r = rules[i];
        const auto gain = [&](const std::vector<rule>& of) { return ratio_text(of[i].predicted, r.predicted); };
        rows.add({bound_text(r.up_to), predicted_text(r), format_duration(r.limit),
                  percent_of_limit(r.limit, r.predicted), gain(ring), gain(two), lanes_text(r),
                  describe(plan.machine, r.stages)});
    }
    say("allreduce, times at the upper bound (the last at {}); beside {} and {}: how many times as long they "
        "take\n{}\n",
        format_bytes(rules.back().at), nics ? "flat rings" : "flat ring", two_name, rows.text());
}

void print_others(const plan_data& plan) {
    table rows("<>>><<");
    rows.add({"", "up to", "predicted", "of limit", "lanes", "stages"});
    for (const auto& [what, rules] : plan.rules) {
        if (what == collective::allreduce) continue;
        for (const rule& r : rules)
            rows.add({&r == &rules.front() ? std::string(to_string(what)) : "", bound_text(r.up_to), predicted_text(r),
                      percent_of_limit(r.limit, r.predicted), lanes_text(r), describe(plan.machine, r.stages)});
    }
    say("the others, by the size of the vector (of all blocks together)\n{}\n", rows.text());
}

// Checks that Terrace can read the plan: files have limits that machines may exceed.
void expect_readable(const plan_data& plan, const std::string& source, const std::string& file) {
    try {
        parse_plan(plan.text, file);
    } catch (const input_error& e) {
        throw input_error(source, 0, 0,
                          fmt::format("the plan is not written, as Terrace could not read it ({}); plan for a "
                                      "part of the machine (--hosts), or give the links of a level one "
                                      "bandwidth",
                                      e.what()));
    }
}

// Sets wire types from a list such as "rack=bfloat16,node=exact".
void set_wire_types(hierarchy& machine, std::string_view list) {
    while (!list.empty()) {
        const std::string_view item = list.substr(0, list.find(','));
        list.remove_prefix(std::min(list.size(), item.size() + 1));
        const std::size_t equals = std::min(item.find('='), item.size());
        const std::string_view name = item.substr(0, equals), type = item.substr(std::min(equals + 1, item.size()));
        const auto of = std::ranges::find(machine.levels, name, &level::name);
        const auto named = parse_wire_type(type);
        if (of == machine.levels.end()) {
            std::vector<std::string_view> names;
            for (const level& l : machine.levels) names.push_back(l.name);
            throw usage_error(fmt::format("--wire {}: there is no level \"{}\"; the levels are {}", item, name,
                                          fmt::join(names, ", ")));
        }
        if (!named)
            throw usage_error(fmt::format("--wire {}: write LEVEL=TYPE; the wire types are {}, and exact for none",
                                          item, wire_type_names()));
        of->wire = *named;
    }
}

}  // namespace

int plan_command::run() const {
    expect_replaceable(output, {machine.source, machine.network, machine.hosts.value_or("")}, force);
    topology t = load_machine(machine);
    set_wire_types(t.machine, wire);
    const auto profiles = profile.empty() ? std::vector<terrace::detail::profile>() : read_profiles(profile);
    std::string learned;
    if (!profiles.empty()) {
        corrected_machine c = correct(t.machine, profiles);
        if (c.others == static_cast<int>(profiles.size()))
            throw usage_error(fmt::format("--profile {}: no profile is of a machine of {} ({} of other shapes)",
                                          profile, shape_text(t.machine.shape), c.others));
        learned = corrections_text(t.machine, c);
        t.machine = std::move(c.machine);
    }
    plan_proofs proofs(t.machine);
    const auto prove = [&](collective what, const std::vector<rule>& rules) { proofs.prove(what, rules); };
    plan_data plan = candidate > 0 ? plan_by_place(t.name, t.machine, static_cast<std::size_t>(candidate - 1))
                                   : make_plan(t.name, t.machine, reproducible, prove);
    if (!profiles.empty() && candidate == 0 && !reproducible) {
        plan_that_keeps all = keep_what_ran(std::move(plan), profiles);
        plan = std::move(all.plan);
        learned += kept_text(all.kept);
    }
    proofs.prove_rest(plan);
    if (const auto fault = proofs.fault()) {
        print_error("{}: the plan is wrong, and not written; please report this: {}\n", machine.source, *fault);
        return 1;
    }
    plan.verified = proofs.text();
    plan = finished(std::move(plan));
    const std::filesystem::path file =
        output.empty() ? std::filesystem::path(file_name(plan.name) + ".plan.yaml") : output;
    expect_replaceable(file, {machine.source, machine.network}, force);
    expect_readable(plan, machine.source, file);
    write_output(file, plan.text);
    if (is_printed(file)) return 0;
    say("{}: {} ({})\n{}\n", plan.name, ranks_text(plan.machine), shape_text(plan.machine.shape),
        rates_text(plan.machine));
    print_allreduce(plan);
    print_others(plan);
    say("verified: {}\n", plan.verified);
    say_text(learned);
    say_text(sensitivity ? sensitivity_text(plan) : most_sensitive_text(plan));
    for (const std::string& warning : t.warnings) say("warning: {}\n", warning);
    for (const std::string& note : t.notes) say("note: {}\n", note);
    say("plan: {}\n", file.string());
    return 0;
}

}  // namespace terrace::detail
