#include "schedule/stage_groups.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "schedule/compose.hpp"

namespace terrace {

namespace {

// Nothing if a rank is in two of them.
std::optional<disjoint_groups> groups_of(const composed_stage& s) {
    std::set<std::vector<int>> groups;
    for (const cohort& k : s.cohorts)
        if (k.members.size() > 1) groups.insert(k.members);
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

std::vector<disjoint_groups> native_groups(const recipe& r, collective what, int root) {
    // Enough that every rank has a part of it.
    const std::int64_t count = std::int64_t{r.machine.ranks()} << 10;
    std::vector<disjoint_groups> all;
    const auto rules = r.rules.find(what);
    if (rules == r.rules.end()) return all;
    for (const rule& each : rules->second)
        for (const composed_stage& s : compose(r.machine, each.stages, count, 1, has_root(what) ? root : -1).stages)
            if (s.by->native) add(all, groups_of(s).value_or(disjoint_groups{}));
    return all;
}

std::vector<disjoint_groups> native_groups(const recipe& r) {
    std::vector<disjoint_groups> all;
    for (const auto& [what, rules] : r.rules)
        for (const disjoint_groups& groups : native_groups(r, what, 0)) add(all, groups);
    return all;
}

bool any_stage(const rule& r, bool algorithm::*is) {
    return std::any_of(r.stages.begin(), r.stages.end(),
                       [is](const stage& s) { return find_algorithm(s.algorithm)->*is; });
}

bool any_over_mpi(const recipe& r) {
    const auto over_mpi = [](const stage& s) { return s.over == carrier::mpi; };
    for (const auto& [what, rules] : r.rules)
        for (const rule& each : rules)
            if (std::any_of(each.stages.begin(), each.stages.end(), over_mpi)) return true;
    return false;
}

int most_stages(const recipe& r) {
    std::size_t most = 1;
    for (const auto& [what, rules] : r.rules)
        for (const rule& each : rules) most = std::max(most, each.stages.size());
    return static_cast<int>(most);
}

}  // namespace terrace
