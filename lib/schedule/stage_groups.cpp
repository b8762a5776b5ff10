#include "schedule/stage_groups.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "schedule/compose.hpp"

namespace terrace::detail {

namespace {

// Returns the groups of a stage; nothing if a rank is in two of them.
std::optional<disjoint_groups> groups_of(const composed_stage& s) {
    std::set<std::vector<int>> groups;
    for (const group& g : s.groups)
        if (g.size() > 1) groups.insert(g.members());
    std::set<int> seen;
    for (const auto& members : groups)
        for (const int rank : members)
            if (!seen.insert(rank).second) return {};
    return disjoint_groups(groups.begin(), groups.end());
}

void add(std::vector<disjoint_groups>& all, const disjoint_groups& groups) {
    if (!groups.empty() && std::find(all.begin(), all.end(), groups) == all.end()) all.push_back(groups);
}

}  // namespace

std::vector<disjoint_groups> nccl_groups(const plan_data& r, collective what, int root) {
    // Large enough for each rank to have a part.
    const std::int64_t count = std::int64_t{r.machine.ranks()} << 10;
    std::vector<disjoint_groups> all;
    const auto rules = r.rules.find(what);
    if (rules == r.rules.end()) return all;
    for (const rule& each : rules->second)
        for (const composed_stage& s :
             compose(r.machine, each.stages, count, 1, row_of(what).has_root() ? root : -1).stages)
            if (follows_buffers(s.by->provider)) add(all, groups_of(s).value_or(disjoint_groups{}));
    return all;
}

std::vector<disjoint_groups> nccl_groups(const plan_data& r) {
    std::vector<disjoint_groups> all;
    for (const auto& [what, rules] : r.rules)
        for (const disjoint_groups& groups : nccl_groups(r, what, 0)) add(all, groups);
    return all;
}

// The groups are the same for all counts that give each rank a part. Other groups, which occur for smaller counts, send
// messages.
std::vector<std::vector<int>> mpi_groups(const plan_data& r) {
    const auto by_mpi = [](const stage& s) { return !s.sends() && s.provider == provider::mpi; };
    std::set<std::vector<int>> groups;
    for (const auto& [what, rules] : r.rules)
        for (const rule& each : rules) {
            if (std::ranges::none_of(each.stages, by_mpi)) continue;
            const std::int64_t count = std::int64_t{r.machine.ranks()} << 20;
            for (const composed_stage& s : compose(r.machine, each.stages, count, 1).stages)
                for (const group& g : s.groups)
                    if (s.by->provider == provider::mpi && g.size() > 1) groups.insert(g.members());
        }
    return {groups.begin(), groups.end()};
}

bool any_follows_buffers(const rule& r) { return std::ranges::any_of(r.stages, follows_buffers, &stage::provider); }

bool any_over_mpi(const plan_data& r) {
    for (const auto& [what, rules] : r.rules)
        for (const rule& each : rules)
            if (std::ranges::find(each.stages, provider::mpi, &stage::provider) != each.stages.end()) return true;
    return false;
}

int most_stages(const plan_data& r) {
    std::size_t most = 1;
    for (const auto& [what, rules] : r.rules)
        for (const rule& each : rules) most = std::max(most, each.stages.size());
    return static_cast<int>(most);
}

}  // namespace terrace::detail
