#include <string>

#include <nlohmann/json.hpp>

#include "base/index.hpp"
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
                    {"rules", rules}};
    return made.dump(2) + "\n";
}

}  // namespace terrace::detail
