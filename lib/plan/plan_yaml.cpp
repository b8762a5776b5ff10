#include "plan/plan_yaml.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>
#include <terrace/version.hpp>

#include "base/document.hpp"
#include "base/hash.hpp"
#include "base/units.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "plan/level_names.hpp"

namespace terrace::detail {

namespace {

constexpr std::int64_t max_lanes = 64;
constexpr std::int64_t max_share = 1000;
constexpr std::string_view any_size = "max";

// Returns the fingerprint of the topology section. It no longer matches after the section was edited by hand.
std::string topology_fingerprint(const plan_data& r) {
    return fingerprint_of(yaml_scalar(r.name) + "\n" + write_hierarchy(r.machine, 0));
}

// ---- writing -------------------------------------------------------------------------------------------------------

// Writes three digits: predictions are good to a few percent, and files stay equal if compilers round differently.
std::string rounded_duration(double seconds) {
    if (seconds <= 0) return format_duration(0);
    const double unit = std::pow(10, std::floor(std::log10(seconds)) - 2);
    return format_duration(std::round(seconds / unit) * unit);
}

std::string write_stage(const hierarchy& machine, const stage& s, const std::vector<int>& sizes) {
    std::vector<std::string> names;
    for (const int l : s.levels) names.push_back(yaml_scalar(machine.levels[static_cast<std::size_t>(l)].name));
    std::string text =
        fmt::format("{{levels: [{}], group: {}, mode: {}", fmt::join(names, ", "), group_text(sizes), to_string(s.how));
    if (s.provider != provider::messages) text += fmt::format(", provider: {}", to_string(s.provider));
    if (s.sends()) text += fmt::format(", algorithm: {}", yaml_scalar(s.algorithm));
    if (!s.shares.empty()) text += fmt::format(", shares: [{}]", fmt::join(s.shares, ", "));
    if (s.route_share > 0) text += fmt::format(", route_share: {}", s.route_share);
    if (s.wire != wire_type::exact) text += fmt::format(", wire: {}", to_string(s.wire));
    return text + "}";
}

// Writes one line for the rule as a whole, then one line per stage.
std::string write_rule(const hierarchy& machine, const rule& r) {
    const bool last = r.up_to == rule::no_bound;
    std::string text = fmt::format("    - {{up_to: {}, ", last ? std::string(any_size) : format_bytes(r.up_to));
    if (last) text += fmt::format("at: {}, ", format_bytes(r.at));
    text += fmt::format("predicted: {}, ", rounded_duration(r.predicted));
    if (r.simulated > 0) text += fmt::format("simulated: {}, ", rounded_duration(r.simulated));
    text += fmt::format("limit: {}, ", rounded_duration(r.limit));
    if (r.lanes != 1) text += fmt::format("lanes: {}, ", r.lanes);
    if (r.chunk != 0) text += fmt::format("chunk: {}, ", format_bytes(r.chunk));

    const tree shape = stage_tree(machine, r.stages);
    std::vector<std::string> stages;
    for (std::size_t s = 0; s < r.stages.size(); ++s)
        stages.push_back("\n        " + write_stage(machine, r.stages[s], shape.children()[s]));
    return text + fmt::format("stages: [{}]}}\n", fmt::join(stages, ","));
}

// ---- reading -------------------------------------------------------------------------------------------------------

void check_version(const document& map) {
    if (map.is_map() && map.has("terrace_topology") && !map.has("terrace_plan"))
        map.fail(fmt::format("this is a cluster file; make a plan of it first: terrace plan {}", map.file()));
    const document version = map.at("terrace_plan");
    expect_format(version, plan_format, "update Terrace, or plan again with this version");
    if (version.integer(1, plan_format) < plan_format)
        version.fail(fmt::format("format {} is no longer read, only format {}; plan again: terrace plan CLUSTER -o {}",
                                 version.text(), plan_format, map.file()));
}

std::vector<int> read_levels(const document& list, const hierarchy& machine) {
    std::vector<int> levels;
    for (const document& item : list.items()) {
        const auto found = std::ranges::find(machine.levels, item.text(), &level::name);
        if (found == machine.levels.end()) {
            std::vector<std::string> names;
            for (const level& l : machine.levels) names.push_back(l.name);
            item.fail(fmt::format("there is no level \"{}\"; the levels are {}", item.text(), fmt::join(names, ", ")));
        }
        levels.push_back(static_cast<int>(found - machine.levels.begin()));
    }
    return levels;
}

mode read_mode(const document& value) {
    const auto how = parse_mode(value.text());
    if (!how) value.fail(fmt::format("unknown mode \"{}\"; the modes are scatter, root, replicate", value.text()));
    return *how;
}

std::vector<int> read_shares(const document& list) {
    std::vector<int> shares;
    for (const document& item : list.items()) shares.push_back(static_cast<int>(item.integer(0, max_share)));
    if (shares.empty()) list.fail("an empty list of shares; remove it if all siblings own the same");
    return shares;
}

provider read_provider(const document& map) {
    if (!map.has("provider")) return provider::messages;
    const document value = map.at("provider");
    const auto named = parse_provider(value.text());
    if (!named)
        value.fail(fmt::format("unknown provider \"{}\"; the providers are {}", value.text(), provider_names()));
    return *named;
}

// Returns the algorithm's name; empty if the provider runs the stage as a collective of its own.
std::string read_algorithm(const document& map, provider by) {
    if (!map.has("algorithm")) {
        if (by == provider::messages)
            map.fail("the stage has neither an algorithm nor a provider that runs it (shared_memory, nccl or mpi)");
        return {};
    }
    const document value = map.at("algorithm");
    if (parse_provider(value.text()))
        value.fail(fmt::format("{} is a provider, not an algorithm; write \"provider: {}\" instead", value.text(),
                               value.text()));
    if (value.text().empty()) value.fail("the name of an algorithm is missing");
    return value.text();
}

stage read_stage(const document& map, const hierarchy& machine) {
    map.allow_only({"levels", "group", "mode", "provider", "algorithm", "shares", "route_share", "wire"});
    const document group = map.at("group");
    const bool uneven = group.text().find("..") != std::string::npos;  // compared with the topology afterwards
    const provider by = read_provider(map);
    return {.levels = read_levels(map.at("levels"), machine),
            .group = uneven ? 0 : static_cast<int>(group.integer(1, max_ranks)),
            .how = read_mode(map.at("mode")),
            .algorithm = read_algorithm(map, by),
            .provider = by,
            .shares = map.has("shares") ? read_shares(map.at("shares")) : std::vector<int>{},
            .route_share = map.has("route_share") ? static_cast<int>(map.at("route_share").integer(1, max_share)) : 0,
            .wire = map.has("wire") ? read_wire_type(map.at("wire")) : wire_type::exact,
            .source = {map.line(), map.column()}};
}

std::vector<stage> read_stages(const document& list, const hierarchy& machine, collective what) {
    std::vector<stage> stages;
    for (const document& item : list.items()) {
        stages.push_back(read_stage(item, machine));
        if (!can(stages.back().how, what))
            item.at("mode").fail(fmt::format("mode is {}, but stages of {} have mode scatter or root",
                                             to_string(stages.back().how), to_string(what)));
    }
    if (stages.empty()) list.fail("a rule needs at least one stage");
    for (std::size_t s = 0; s < stages.size(); ++s)
        if (stages[s].wire != wire_type::exact && (!row_of(what).up || row_of(what).has_root()))
            list.items()[s].at("wire").fail("wire types belong to stages of allreduce and reduce_scatter");
    for (std::size_t s = 0; s < stages.size(); ++s)
        if (!stages[s].shares.empty() && what != collective::allreduce)
            list.items()[s].at("shares").fail("shares belong to stages of allreduce");
    try {
        const tree shape = stage_tree(machine, stages);
        for (std::size_t s = 0; s < stages.size(); ++s) {
            const document group = list.items()[s].at("group");
            const std::string expected = group_text(shape.children()[s]);
            if (stages[s].group == 0 && group.text() != expected)
                group.fail(fmt::format("group is {}, but the topology makes groups of {}", group.text(), expected));
        }
    } catch (const stage_error& e) {
        list.items()[static_cast<std::size_t>(e.number())].fail(e.what());
    } catch (const plan_error& e) {
        list.fail(e.what());
    }
    return stages;
}

std::int64_t read_positive_bytes(const document& value) {
    const std::int64_t bytes = value.bytes();
    if (bytes < 1) value.fail("must be at least 1 B");
    return bytes;
}

rule read_rule(const document& map, const hierarchy& machine, collective what) {
    map.allow_only({"up_to", "at", "predicted", "simulated", "limit", "lanes", "chunk", "stages"});
    rule r;
    const document up_to = map.at("up_to");
    if (up_to.text() != any_size) {
        r.at = r.up_to = read_positive_bytes(up_to);
        if (map.has("at"))
            map.at("at").fail("only the rule with up_to: max has the size of its predictions; remove it");
    } else {
        r.at = read_positive_bytes(map.at("at"));
    }
    r.predicted = map.at("predicted").duration();
    if (map.has("simulated")) r.simulated = map.at("simulated").duration();
    r.limit = map.at("limit").duration();
    if (map.has("lanes")) r.lanes = static_cast<int>(map.at("lanes").integer(1, max_lanes));
    if (map.has("chunk")) r.chunk = read_positive_bytes(map.at("chunk"));
    r.stages = read_stages(map.at("stages"), machine, what);
    return r;
}

std::vector<rule> read_rules(const document& section, const hierarchy& machine, collective what) {
    section.allow_only({"rules"});
    const document list = section.at("rules");
    std::vector<rule> rules;
    for (const document& item : list.items()) {
        rule next = read_rule(item, machine, what);
        if (!rules.empty() && next.up_to <= rules.back().up_to)
            item.at("up_to").fail(rules.back().up_to == rule::no_bound
                                      ? std::string("a rule after the one with up_to: max")
                                      : fmt::format("up_to is {} after {}; rules must ascend", item.at("up_to").text(),
                                                    format_bytes(rules.back().up_to)));
        rules.push_back(std::move(next));
    }
    if (rules.empty() || rules.back().up_to != rule::no_bound) list.fail("the last rule must have up_to: max");
    return rules;
}

void read_topology(const document& map, plan_data& r) {
    map.allow_only({"name", "fingerprint", "levels", "tree", "reduction", "segment"});
    r.name = map.at("name").text();
    r.machine = read_hierarchy(map);
    const document fingerprint = map.at("fingerprint");
    const std::string expected = topology_fingerprint(r);
    if (fingerprint.text() != expected)
        fingerprint.fail(
            fmt::format("the fingerprint is {}, but this section has {}: the topology section was "
                        "changed by hand; change the cluster file and plan again",
                        fingerprint.text(), expected));
}

}  // namespace

plan_data read_plan(const std::filesystem::path& file) {
    const std::string text = read_text(file, document::max_bytes);
    // XML read as YAML would fail at an arbitrary place, with a misleading message.
    if (text.starts_with('<'))
        throw input_error(
            file.string(), 0, 0,
            "this is XML (a picture, or the description of a node), not a plan; terrace plan makes plans");
    return parse_plan(text, file.string());
}

plan_data parse_plan(std::string_view text, const std::string& file_name) {
    const document map = document::parse(text, file_name);
    check_version(map);
    map.allow_only({"terrace_plan", "made_by", "topology", "verified", "allreduce", "reduce_scatter", "allgather",
                    "broadcast", "reduce", "alltoall", "gather", "scatter"});
    plan_data r;
    r.file = map.file();
    r.made_by = map.at("made_by").text();
    read_topology(map.at("topology"), r);
    if (map.has("verified")) r.verified = map.at("verified").text();
    for (const auto& [key, content] : map.entries())
        if (const auto what = parse_collective(key)) r.rules[*what] = read_rules(content, r.machine, *what);
    if (r.rules.empty()) map.fail("the plan has rules for no collective");
    return finished(std::move(r));
}

std::string write_plan(const plan_data& r) {
    std::string text = fmt::format("terrace_plan: {}\nmade_by: {}\n", plan_format, yaml_scalar(r.made_by));
    text += fmt::format("topology:\n  name: {}\n  fingerprint: \"{}\"\n", yaml_scalar(r.name), topology_fingerprint(r));
    text += write_hierarchy(r.machine, 2);
    if (!r.verified.empty()) text += fmt::format("verified: {}\n", yaml_scalar(r.verified));
    for (const auto& [what, rules] : r.rules) {
        text += fmt::format("{}:\n  rules:\n", to_string(what));
        for (const rule& each : rules) text += write_rule(r.machine, each);
    }
    return text;
}

plan_data finished(plan_data r) {
    r.text = write_plan(r);
    r.id = fingerprint_of(r.text);
    return r;
}

}  // namespace terrace::detail
