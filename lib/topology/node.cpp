#include "topology/node.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "topology/gpu_links.hpp"
#include "topology/node_levels.hpp"
#include "topology/node_nics.hpp"
#include "topology/part_list.hpp"

namespace terrace::detail {

namespace {

using kind = part::kind;

// A NUMA node may lie in another one's reach: then only the inner one counts.
std::vector<int> innermost(const part_list& parts, const std::vector<int>& chosen) {
    const std::vector<int> counts = parts.counts(chosen);
    std::vector<int> result;
    for (const int i : chosen)
        if (counts[at(i)] == 1) result.push_back(i);
    return result;
}

std::vector<int> rank_parts(const part_list& parts, rank_unit unit) {
    switch (unit) {
        case rank_unit::gpus: return parts.of_kind(kind::gpu);
        case rank_unit::cores: return parts.of_kind(kind::core);
        case rank_unit::numa: return innermost(parts, parts.of_kind(kind::numa));
        case rank_unit::packages: return parts.of_kind(kind::package);
    }
    return {};
}

}  // namespace

node place_ranks(hardware parts, std::optional<rank_unit> unit, const std::string& file) {
    node result{{}, std::move(parts)};
    assume_gpu_links(result.parts);
    const part_list all(result.parts.machine);
    std::vector<int> gpus = all.of_kind(kind::gpu);
    const rank_unit chosen = unit.value_or(gpus.empty() ? rank_unit::cores : rank_unit::gpus);
    std::vector<int> ranks = rank_parts(all, chosen);
    if (ranks.empty())
        throw input_error(
            file, 0, 0,
            fmt::format("holds no {} to place ranks on; choose others of {}", to_string(chosen), rank_unit_names()));
    if (chosen == rank_unit::gpus) {
        // Wires number GPUs as they come in the file; ranks follow the driver.
        std::vector<int> order(gpus.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int a, int b) { return all[gpus[at(a)]].order < all[gpus[at(b)]].order; });
        std::vector<int> renumbered(order.size());
        for (std::size_t i = 0; i < order.size(); ++i) {
            ranks[i] = gpus[at(order[i])];
            renumbered[at(order[i])] = static_cast<int>(i);
        }
        for (hardware::wire& w : result.parts.wires) {
            w.from = renumbered[at(w.from)];
            if (w.to >= 0) w.to = renumbered[at(w.to)];
        }
    }
    std::vector<int> order;
    result.levels = find_levels(all, result.parts, ranks, order);
    std::vector<int> placed;
    for (const int r : order) {
        all[ranks[at(r)]].rank = static_cast<int>(placed.size());
        placed.push_back(ranks[at(r)]);
    }
    assign_nics(all, placed);
    return result;
}

std::optional<hierarchy> levels_between(hardware parts, std::span<const int> threads, std::vector<int>& order) {
    const part_list all(parts.machine);
    std::map<int, int> core_of;
    for (const int core : all.of_kind(kind::core))
        for (const int thread : all[core].processors) core_of.emplace(thread, core);
    std::vector<int> ranks;
    for (const int thread : threads) {
        const auto core = core_of.find(thread);
        if (core == core_of.end()) return {};
        ranks.push_back(core->second);
    }
    return find_levels(all, parts, std::move(ranks), order);
}

}  // namespace terrace::detail
