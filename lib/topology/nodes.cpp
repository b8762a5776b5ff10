#include "topology/nodes.hpp"

#include <cstdint>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "machine/hierarchy_yaml.hpp"
#include "topology/side_by_side.hpp"

namespace terrace::detail {

topology single_node(std::string name, node n) {
    topology t{std::move(name), std::move(n.levels), nullptr, {}};
    if (n.parts.wires.empty() && count_gpus(n.parts.machine) > 1)
        t.notes.push_back(
            "nothing says whether the GPUs are linked directly (NVLink, xGMI); if they are, capture the "
            "node with an lstopo that knows the GPU's driver, or add nvlink: RATE to the cluster file's "
            "node");
    t.node = std::make_shared<const part>(std::move(n.parts.machine));
    return t;
}

topology with_nodes(const hierarchy& above, topology inside) {
    return with_nodes(above, std::vector{std::move(inside)},
                      std::vector<int>(static_cast<std::size_t>(above.ranks()), 0));
}

topology with_nodes(const hierarchy& above, std::vector<topology> types, std::vector<int> type_of_node) {
    std::vector<hierarchy> insides;
    for (const topology& t : types) {
        if (t.machine.node_levels() < t.machine.depth())
            throw usage_error("the nodes' description has levels between nodes already; give that of one node");
        insides.push_back(t.machine);
    }
    std::int64_t ranks = 0;
    for (const int type : type_of_node) ranks += insides[static_cast<std::size_t>(type)].ranks();
    if (ranks > max_ranks)
        throw usage_error(
            fmt::format("{} nodes of {} ranks in all are more than {} ranks", above.ranks(), ranks, max_ranks));
    auto [levels, children] = side_by_side(insides, type_of_node);
    if (above.levels.size() + levels.size() > max_levels)
        throw usage_error(fmt::format("with {} inside the node more than {} levels", levels.size(), max_levels));
    for (const level& l : above.levels)
        for (const level& inner : levels)
            if (l.name == inner.name)
                throw usage_error(fmt::format("two levels are named \"{}\", in the node and above it", l.name));

    topology whole = types.size() == 1 ? std::move(types.front()) : topology{};
    for (topology& t : types) {
        if (types.size() == 1) break;
        for (std::string& note : t.notes) whole.notes.push_back(fmt::format("{}: {}", t.name, note));
        whole.types.push_back({std::move(t.name), std::move(t.node)});
    }
    if (!whole.types.empty()) whole.type_of_node = std::move(type_of_node);
    levels.insert(levels.end(), above.levels.begin(), above.levels.end());
    children.insert(children.end(), above.shape.children().begin(), above.shape.children().end());
    whole.machine = {std::move(levels), tree(std::move(children)), above.processors, above.hosts};
    return whole;
}

int count_gpus(const part& p) {
    int count = p.what == part::kind::gpu;
    for (const part& c : p.children) count += count_gpus(c);
    return count;
}

}  // namespace terrace::detail
