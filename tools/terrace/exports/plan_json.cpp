#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "base/text_parts.hpp"
#include "plan/plan_yaml.hpp"
#include "tools/terrace/exports/formats.hpp"

namespace terrace::detail {

namespace {

using json = nlohmann::ordered_json;

json json_of(const hierarchy& machine, const rule& r) {
    json stages = json::array();
    for (const stage& s : r.stages) {
        json levels = json::array();
        for (const int l : s.levels) levels.push_back(machine.levels[at(l)].name);
        stages.push_back({{"levels", levels}, {"mode", to_string(s.how)}, {"provider", to_string(s.provider)}});
        if (s.sends()) stages.back()["algorithm"] = s.algorithm;
        if (s.group > 0) stages.back()["group"] = s.group;
        if (!s.shares.empty()) stages.back()["shares"] = s.shares;
        if (s.route_share > 0) stages.back()["route_share"] = s.route_share;
    }
    json made{{"lanes", r.lanes},           {"chunk_bytes", r.chunk}, {"at_bytes", r.at},
              {"predicted_s", r.predicted}, {"limit_s", r.limit},     {"stages", stages}};
    if (r.simulated > 0) made["simulated_s"] = r.simulated;
    if (r.up_to == rule::no_bound) made["up_to_bytes"] = nullptr;
    else made["up_to_bytes"] = r.up_to;
    return made;
}

}  // namespace

// Reads the plan file inside the JSON. All other values must agree with this plan.
plan_facts read_plan_json(const named_text& file) {
    const auto fail = [&](const std::string& why) { throw input_error(file.name, 0, 0, why); };
    const json all = json::parse(file.text, nullptr, false);
    if (!all.is_object() || !all.contains("plan") || !all["plan"].is_string()) fail("no JSON with a \"plan\" file");
    plan_facts made{"", {}, parse_plan(all["plan"].get<std::string>(), file.name + ": the plan")};
    const std::string again = plan_json(*made.plan, {});
    const json differs = json::diff(json::parse(again), all);
    if (!differs.empty()) fail(fmt::format("{} is not as its plan has it", differs[0].at("path").get<std::string>()));
    for_each_line(again, [&](std::string_view line, int) { made.lines.emplace_back(line); });
    return made;
}

std::string plan_json(const plan_data& plan, const export_options&) {
    json levels = json::array();
    for (const level& l : plan.machine.levels) {
        levels.push_back(
            {{"name", l.name},
             {"fabric", to_string(l.medium)},
             {"bandwidth_bytes_per_s", l.bandwidth},
             {"latency_s", l.latency},
             {"overhead_s", l.overhead},
             {"assumed",
              {{"bandwidth", l.bandwidth_assumed}, {"latency", l.latency_assumed}, {"overhead", l.overhead_assumed}}}});
        if (!l.rates.empty()) levels.back()["bandwidths_bytes_per_s"] = l.rates;
    }
    json rules;
    for (const auto& [what, list] : plan.rules) {
        json& of = rules[std::string(to_string(what))] = json::array();
        for (const rule& r : list) of.push_back(json_of(plan.machine, r));
    }
    const json made{{"name", plan.name},
                    {"made_by", plan.made_by},
                    {"id", plan.id},
                    {"verified", plan.verified},
                    {"ranks", plan.machine.ranks()},
                    {"nodes", plan.machine.node_sizes()},
                    {"hosts", plan.machine.hosts},
                    {"levels", levels},
                    {"shape", plan.machine.shape.children()},
                    {"rules", rules},
                    {"plan", plan.text}};
    return made.dump(2) + "\n";
}

}  // namespace terrace::detail
