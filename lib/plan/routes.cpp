#include "plan/routes.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/index.hpp"

namespace terrace::detail {

namespace {

// Returns why the stage cannot change places with the dimensions after it; empty if it can.
std::string fault_of(const hierarchy& machine, std::span<const stage> stages, const stage& s) {
    const auto name = [&](int l) { return machine.levels[at(l)].name; };
    if (s.levels.front() < machine.torus_level())
        return fmt::format("level {} is not a dimension of a torus", name(s.levels.front()));
    for (int l = 0; l < machine.depth(); ++l)
        if (!machine.shape.uniform_size(l)) return fmt::format("nodes differ in level {}", name(l));
    for (const stage& each : stages) {
        if (each.how != mode::scatter)
            return fmt::format("a stage has mode {}; all must have mode scatter", to_string(each.how));
        if (!each.shares.empty()) return "a stage has shares";
        if (each.levels.front() < machine.torus_level() && each.levels.back() >= machine.torus_level())
            return fmt::format("a stage merges {} with levels inside nodes", name(each.levels.back()));
        if (each.levels.front() < machine.torus_level()) continue;
        int whole = 1;  // size of a group of all children
        for (const int l : each.levels) whole *= machine.shape.children(l, 0);
        if (each.group != whole) return fmt::format("level {} is split", name(each.levels.front()));
        if (each.provider != s.provider)
            return fmt::format("dimensions have providers {} and {}", to_string(s.provider), to_string(each.provider));
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
    int inside = 0;  // number of stages inside nodes
    while (inside < all && stages[at(inside)].levels.front() < machine.torus_level()) ++inside;
    routes made{.common = inside, .orders = {}, .shares = {}};
    for (int s = 0; s < all; ++s) {
        if (stages[at(s)].route_share == 0) continue;
        if (const std::string fault = fault_of(machine, stages, stages[at(s)]); !fault.empty())
            throw stage_error(s, fmt::format("stages[{}]: route_share is not supported here: {}", s, fault));
        std::vector<int>& order = made.orders.emplace_back(at(all - inside));
        std::iota(order.begin(), order.end(), inside);
        std::rotate(order.begin(), order.begin() + (s - inside), order.end());
        made.shares.push_back(stages[at(s)].route_share);
    }
    if (made.count() == 0 || (made.count() == 1 && made.orders.front().front() == inside)) return {all, {}, {}};
    return made;
}

double growth_in_order(std::span<const stage> stages, const std::vector<int>& order, int number) {
    double growth = 1;
    for (auto before = order.begin(); *before != number; ++before) growth /= stages[at(*before)].group;
    for (int before = *std::min_element(order.begin(), order.end()); before < number; ++before)
        growth *= stages[at(before)].group;
    return growth;
}

}  // namespace terrace::detail
