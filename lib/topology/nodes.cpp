#include "topology/nodes.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "topology/gpu_links.hpp"
#include "topology/side_by_side.hpp"

namespace terrace::detail {

namespace {

bool has_several(const std::optional<uplink>& up) { return up && up->nics.size() > 1; }

// Ranks use the NICs that are near to them, if the cluster file has as many as the node.
void place(nic_set& nics, int node, int first_rank, const std::optional<uplink>& up) {
    if (!up || at(nics.count_of(node)) != up->nics.size()) return;
    for (std::size_t r = 0; r < up->of_rank.size(); ++r)
        nics.of_rank[at(first_rank) + r] = nics.first_of(node) + up->of_rank[r];
}

// Gives nodes the NICs that their descriptions have, if some node has several.
void add_nics(hierarchy& machine, std::span<const std::optional<uplink>> kinds, std::span<const int> node_kind) {
    const int l = machine.node_levels(), nodes = static_cast<int>(node_kind.size());
    if (l == machine.depth() || machine.levels[at(l)].ring) return;
    if (machine.nics.empty()) {
        if (std::none_of(kinds.begin(), kinds.end(), has_several)) return;
        level& network = machine.levels[at(l)];
        std::vector<std::vector<double>> rates;
        std::vector<double> of_node;
        for (int node = 0; node < nodes; ++node) {
            const std::optional<uplink>& up = kinds[at(node_kind[at(node)])];
            of_node.push_back(network.bandwidth_assumed && up ? up->bandwidth : machine.rate(l, node));
            std::vector<double>& of_nics = rates.emplace_back(up && !up->nics.empty() ? up->nics : std::vector{1.0});
            const double all = std::accumulate(of_nics.begin(), of_nics.end(), 0.0);
            for (double& rate : of_nics) rate *= of_node.back() / all;
        }
        if (network.bandwidth_assumed)
            network.bandwidth_assumed = std::any_of(kinds.begin(), kinds.end(),
                                                    [](const std::optional<uplink>& up) { return !up || up->assumed; });
        network = normalised(with_rates(std::move(network), std::move(of_node)));
        machine.nics = shared_nics(rates, machine.node_sizes());
    }
    for (int node = 0; node < nodes; ++node)
        place(machine.nics, node, machine.shape.first_rank(l - 1, node), kinds[at(node_kind[at(node)])]);
}

}  // namespace

topology single_node(std::string name, node n) {
    topology t{std::move(name), std::move(n.levels), nullptr, std::move(n.parts.notes)};
    gpu_link_remarks remarks = remarks_on_gpu_links(n.parts);
    if (!remarks.note.empty()) t.notes.push_back(std::move(remarks.note));
    if (!remarks.warning.empty()) t.warnings.push_back(std::move(remarks.warning));
    t.node = std::make_shared<const part>(std::move(n.parts.machine));
    return t;
}

topology with_nodes(const hierarchy& above, topology inside) {
    return with_nodes(above, std::vector{std::move(inside)},
                      std::vector<int>(static_cast<std::size_t>(above.ranks()), 0));
}

hierarchy with_nodes(const hierarchy& above, std::span<const hierarchy> insides,
                     std::span<const std::optional<uplink>> uplinks, std::span<const int> kind_of_node) {
    std::int64_t ranks = 0;
    for (const int kind : kind_of_node) ranks += insides[at(kind)].ranks();
    if (ranks > max_ranks)
        throw usage_error(
            fmt::format("{} nodes of {} ranks in all are more than {} ranks", kind_of_node.size(), ranks, max_ranks));
    auto [levels, children] = side_by_side(insides, kind_of_node);
    if (above.levels.size() + levels.size() > max_levels)
        throw usage_error(fmt::format("with {} inside the node more than {} levels", levels.size(), max_levels));
    for (const level& l : above.levels)
        for (const level& inner : levels)
            if (l.name == inner.name)
                throw usage_error(fmt::format("two levels are named \"{}\", in the node and above it", l.name));
    levels.insert(levels.end(), above.levels.begin(), above.levels.end());
    children.insert(children.end(), above.shape.children().begin(), above.shape.children().end());
    hierarchy whole{std::move(levels), tree(std::move(children)), above.processors, above.hosts};
    if (!above.nics.empty()) whole.nics = with_node_sizes(above.nics, whole.node_sizes());
    add_nics(whole, uplinks, kind_of_node);
    limit_to_nics(whole);
    return whole;
}

topology with_nodes(const hierarchy& above, std::vector<topology> types, std::vector<int> type_of_node) {
    std::vector<hierarchy> insides;
    std::vector<std::optional<uplink>> uplinks;
    for (const topology& t : types) {
        if (t.machine.node_levels() < t.machine.depth())
            throw usage_error("the nodes' description has levels between nodes already; give that of one node");
        insides.push_back(t.machine);
        uplinks.push_back(t.node ? uplink_of(*t.node) : std::nullopt);
    }
    hierarchy machine = with_nodes(above, insides, uplinks, type_of_node);
    topology whole = types.size() == 1 ? std::move(types.front()) : topology{};
    for (topology& t : types) {
        if (types.size() == 1) break;
        for (std::string& note : t.notes) whole.notes.push_back(fmt::format("{}: {}", t.name, note));
        for (std::string& text : t.warnings) whole.warnings.push_back(fmt::format("{}: {}", t.name, text));
        whole.types.push_back({std::move(t.name), std::move(t.node)});
    }
    if (!whole.types.empty()) whole.type_of_node = std::move(type_of_node);
    whole.machine = std::move(machine);
    return whole;
}

int count_gpus(const part& p) {
    int count = p.what == part::kind::gpu;
    for (const part& c : p.children) count += count_gpus(c);
    return count;
}

}  // namespace terrace::detail
