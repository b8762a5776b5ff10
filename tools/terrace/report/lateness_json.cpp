#include "tools/terrace/report/parts.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "statistics/late_ranks.hpp"

namespace terrace::detail {

namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t most_ranks = 20;  // in the table

}  // namespace

json lateness_json(const std::filesystem::path& directory) {
    const std::vector<rank_statistics> files = read_statistics(directory);
    const lateness found = lateness_of(files);
    json ranks = json::array(), hosts = json::array(), stages = json::array(), parts = json::array(),
         calls = json::array();
    for (const auto& [rank, r] : found.ranks)
        ranks.push_back({{"rank", rank},
                         {"host", r.host},
                         {"held_up_seconds", r.held_up},
                         {"steady_seconds", r.steady},
                         {"waited_seconds", r.waited}});
    for (const auto& [host, h] : found.hosts)
        hosts.push_back({{"host", host},
                         {"held_up_seconds", h.held_up},
                         {"steady_seconds", h.steady},
                         {"waited_seconds", h.waited}});
    const auto worst_first = [](json& rows) {
        std::stable_sort(rows.begin(), rows.end(),
                         [](const json& a, const json& b) { return a["steady_seconds"] > b["steady_seconds"]; });
        if (rows.size() > most_ranks) rows.erase(rows.begin() + most_ranks, rows.end());
    };
    worst_first(ranks);
    worst_first(hosts);
    for (const auto& [stage, waited] : found.stages) stages.push_back({{"stage", stage}, {"waited_seconds", waited}});
    for (const lateness::part& p : found.parts) {
        const auto worst = std::ranges::max_element(p.held_up, {}, [](const auto& each) { return each.second; });
        parts.push_back(
            {{"from_call", p.first_call}, {"worst_rank", worst->first}, {"held_up_seconds", worst->second}});
    }
    for (const auto& [size, c] : found.calls)
        calls.push_back({{"call", size.first},
                         {"bytes_from", size.second},
                         {"calls", c.calls},
                         {"seconds", c.seconds},
                         {"waited_seconds", c.waited},
                         {"percent_of_limit", c.seconds > 0 ? 100 * c.limit / c.seconds : 0}});
    json all = {
        {"verdict", found.sentence()}, {"files", files.size()}, {"ranks", ranks}, {"hosts", hosts}, {"stages", stages},
        {"over time", parts},          {"calls", calls}};
    for (const rank_statistics& file : files)
        for (const changed_plan& c : file.changes)
            all["changes of the plan"].push_back({{"from_call", c.from_call}, {"why", c.why}});
    return all;
}

}  // namespace terrace::detail
