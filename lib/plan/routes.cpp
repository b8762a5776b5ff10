#include "plan/routes.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/index.hpp"

namespace terrace {

namespace {

bool is_part(const hierarchy& machine, const stage& s) {
    int group = 1;
    for (const int l : s.levels) group *= machine.shape.children(l, 0);
    return s.group != group;
}

// Nothing if the stage may be gone through in any order with the others behind it.
std::string fault_of(const hierarchy& machine, std::span<const stage> stages, const stage& s) {
    const auto is_even = [&](int l) { return machine.shape.uniform_size(l).has_value(); };
    const auto name = [&](int l) { return machine.levels[at(l)].name; };
    if (s.levels.front() < machine.torus_level())
        return fmt::format("level {} is not a dimension of a torus", name(s.levels.front()));
    for (int l = 0; l < machine.depth(); ++l)
        if (!is_even(l)) return fmt::format("the nodes differ, in level {}", name(l));
    for (const stage& each : stages) {
        if (each.how != mode::scatter) return fmt::format("a stage has mode {}, and not scatter", to_string(each.how));
        if (!each.weights.empty()) return "a stage has weights";
        if (each.levels.front() < machine.torus_level() && each.levels.back() >= machine.torus_level())
            return fmt::format("a stage merges {} with what is inside nodes", name(each.levels.back()));
        if (each.levels.front() < machine.torus_level()) continue;
        if (is_part(machine, each)) return fmt::format("level {} is split", name(each.levels.front()));
        if (each.over != s.over) return "dimensions go over NCCL and MPI";
    }
    return {};
}

}  // namespace

std::span<const stage> dimensions_of(const hierarchy& machine, std::span<const stage> stages) {
    const auto first = std::find_if(stages.begin(), stages.end(),
                                    [&](const stage& s) { return s.levels.front() >= machine.torus_level(); });
    const auto dimensions = stages.subspan(static_cast<std::size_t>(first - stages.begin()));
    return dimensions.size() > 1 && fault_of(machine, stages, dimensions.front()).empty() ? dimensions
                                                                                          : std::span<const stage>{};
}

routes routes_of(const hierarchy& machine, std::span<const stage> stages) {
    const int all = static_cast<int>(stages.size());
    routes made{.common = all, .orders = {}, .shares = {}};
    int inside = 0;  // stages
    while (inside < all && stages[at(inside)].levels.front() < machine.torus_level()) ++inside;
    for (int s = 0; s < all; ++s) {
        if (stages[at(s)].first == 0) continue;
        if (const std::string fault = fault_of(machine, stages, stages[at(s)]); !fault.empty())
            throw stage_error(s, fmt::format("stages[{}]: first is of no use here: {}", s, fault));
        std::vector<int>& order = made.orders.emplace_back(at(all - inside));
        std::iota(order.begin(), order.end(), inside);
        std::rotate(order.begin(), order.begin() + (s - inside), order.end());
        made.shares.push_back(stages[at(s)].first);
    }
    if (made.count() == 0 || (made.count() == 1 && made.orders.front().front() == inside)) return {all, {}, {}};
    made.common = inside;
    return made;
}

}  // namespace terrace
