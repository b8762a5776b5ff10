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
#include "base/hierarchy_yaml.hpp"
#include "base/units.hpp"

namespace terrace {

namespace {

constexpr std::int64_t max_lanes = 64;
constexpr std::int64_t max_weight = 1000;
constexpr std::string_view any_size = "max";

// What a plan was made for, in one form: whoever changes it by hand gets a plan that no longer fits its own numbers.
std::string topology_fingerprint(const recipe& r) {
    return fingerprint_of(yaml_scalar(r.name) + "\n" + write_hierarchy(r.machine, 0));
}

// ---- writing -------------------------------------------------------------------------------------------------------

// Predictions are good to a few percent; three digits also keep the file equal where compilers round differently.
std::string rounded_duration(double seconds) {
    if (seconds <= 0) return format_duration(0);
    const double unit = std::pow(10, std::floor(std::log10(seconds)) - 2);
    return format_duration(std::round(seconds / unit) * unit);
}

// "4", or "2..4" where the groups differ in size.
std::string group_text(const std::vector<int>& sizes) {
    const auto [low, high] = std::minmax_element(sizes.begin(), sizes.end());
    return *low == *high ? fmt::format("{}", *low) : fmt::format("{}..{}", *low, *high);
}

std::string write_stage(const hierarchy& machine, const stage& s, const std::vector<int>& sizes) {
    std::vector<std::string> names;
    for (const int l : s.levels) names.push_back(yaml_scalar(machine.levels[static_cast<std::size_t>(l)].name));
    const std::string weights = s.weights.empty() ? "" : fmt::format(", weights: [{}]", fmt::join(s.weights, ", "));
    const std::string over = s.over == carrier::nccl ? "" : fmt::format(", over: {}", to_string(s.over));
    const std::string first = s.first == 0 ? "" : fmt::format(", first: {}", s.first);
    return fmt::format("{{levels: [{}], group: {}, mode: {}, algorithm: {}{}{}{}}}", fmt::join(names, ", "),
                       group_text(sizes), to_string(s.how), yaml_scalar(s.algorithm), weights, over, first);
}

// One line for what holds of the whole rule, then one per stage.
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
    expect_format(map.at("terrace_plan"), plan_format, "update Terrace, or plan again with this version");
}

std::vector<int> read_levels(const document& list, const hierarchy& machine) {
    std::vector<int> levels;
    for (const document& item : list.items()) {
        const auto named = [&](const level& l) { return l.name == item.text(); };
        const auto found = std::find_if(machine.levels.begin(), machine.levels.end(), named);
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

std::vector<int> read_weights(const document& list) {
    std::vector<int> weights;
    for (const document& item : list.items()) weights.push_back(static_cast<int>(item.integer(0, max_weight)));
    if (weights.empty()) list.fail("an empty list of weights; leave it out where all are equal");
    return weights;
}

carrier read_carrier(const document& map) {
    if (!map.has("over")) return carrier::nccl;
    const document value = map.at("over");
    const auto over = parse_carrier(value.text());
    if (!over) value.fail(fmt::format("a stage cannot go over \"{}\"; it goes over nccl or mpi", value.text()));
    if (over == carrier::mpi && map.at("algorithm").text() == "native")
        value.fail("native is NCCL's own collective between devices; over mpi go ring, halving, direct and the others");
    return *over;
}

stage read_stage(const document& map, const hierarchy& machine) {
    map.allow_only({"levels", "group", "mode", "algorithm", "weights", "over", "first"});
    const document group = map.at("group");
    const bool uneven = group.text().find("..") != std::string::npos;  // compared with the topology afterwards
    return {.levels = read_levels(map.at("levels"), machine),
            .group = uneven ? 0 : static_cast<int>(group.integer(1, max_ranks)),
            .how = read_mode(map.at("mode")),
            .algorithm = map.at("algorithm").text(),
            .weights = map.has("weights") ? read_weights(map.at("weights")) : std::vector<int>{},
            .over = read_carrier(map),
            .first = map.has("first") ? static_cast<int>(map.at("first").integer(1, max_weight)) : 0,
            .written = {map.line(), map.column()}};
}

std::vector<stage> read_stages(const document& list, const hierarchy& machine, collective what) {
    std::vector<stage> stages;
    for (const document& item : list.items()) {
        stages.push_back(read_stage(item, machine));
        if (!can(stages.back().how, what))
            item.at("mode").fail(fmt::format("mode is {}, but stages of {} have mode {}", to_string(stages.back().how),
                                             to_string(what), to_string(has_root(what) ? mode::root : mode::scatter)));
    }
    if (stages.empty()) list.fail("a rule has at least one stage");
    for (std::size_t s = 0; s < stages.size(); ++s)
        if (!stages[s].weights.empty() && (what != collective::allreduce || s + 1 < stages.size()))
            list.items()[s].at("weights").fail("weights are for the outermost stage of allreduce");
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
        if (map.has("at")) map.at("at").fail("only the rule with up_to: max says what size its predictions are for");
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

void read_topology(const document& map, recipe& r) {
    map.allow_only({"name", "fingerprint", "levels", "tree", "reduction", "cores"});
    r.name = map.at("name").text();
    r.machine = read_hierarchy(map);
    const document fingerprint = map.at("fingerprint");
    const std::string expected = topology_fingerprint(r);
    if (fingerprint.text() != expected)
        fingerprint.fail(
            fmt::format("the fingerprint is {}, but that of this section is {}: the topology section was "
                        "changed by hand; change the cluster file and plan again",
                        fingerprint.text(), expected));
}

recipe read(const document& map) {
    check_version(map);
    map.allow_only({"terrace_plan", "made_by", "topology", "verified", "allreduce", "reduce_scatter", "allgather",
                    "broadcast", "reduce"});
    recipe r;
    r.file = map.file();
    r.made_by = map.at("made_by").text();
    read_topology(map.at("topology"), r);
    if (map.has("verified")) r.verified = map.at("verified").text();
    for (const auto& [key, content] : map.entries())
        if (const auto what = parse_collective(key)) r.rules[*what] = read_rules(content, r.machine, *what);
    if (r.rules.empty()) map.fail("the plan has rules for no collective");
    return finished(std::move(r));
}

}  // namespace

recipe read_plan(const std::filesystem::path& file) { return read(document::read_file(file)); }

recipe parse_plan(std::string_view text, const std::string& file_name) {
    return read(document::parse(text, file_name));
}

std::string write_plan(const recipe& r) {
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

recipe finished(recipe r) {
    r.text = write_plan(r);
    r.id = fingerprint_of(r.text);
    return r;
}

}  // namespace terrace
