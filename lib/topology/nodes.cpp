#include "topology/nodes.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "machine/devices.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "topology/gpu_links.hpp"

namespace terrace::detail {

namespace {

// Returns true for equal fabrics. Shared memory and the connection of sockets are both memory, and count as equal.
bool alike(fabric a, fabric b) { return a == b || (is_memory(a) && is_memory(b)); }

// A level that some kinds of nodes have.
struct shared_level {
    std::string given, name;  // name in the kinds, and a name that no other level has
    fabric medium;
    std::vector<int> index;  // by kind: index of the level in it; -1: missing
};

std::string free_name(const std::vector<shared_level>& all, const level& l) {
    std::string name = l.name;
    const auto taken = [&](const shared_level& s) { return s.name == name; };
    while (std::any_of(all.begin(), all.end(), taken)) name += fmt::format("-{}", to_string(l.medium));
    return name;
}

// Returns all levels, innermost first. Each kind has some of them, in the same order.
std::vector<shared_level> shared_levels(std::span<const job_node> kinds, std::span<const int> node_kind) {
    std::vector<bool> used(kinds.size());
    for (const int k : node_kind) used[at(k)] = true;
    std::vector<shared_level> all;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
        if (!used[k]) continue;
        auto next = all.begin();  // position after the last level of this kind
        for (int l = 0; l < kinds[k].levels.depth(); ++l) {
            const level& own = kinds[k].levels.levels[at(l)];
            auto place = std::find_if(all.begin(), all.end(), [&](const shared_level& s) {
                return s.given == own.name && alike(s.medium, own.medium);
            });
            if (place == all.end())
                place =
                    all.insert(next, {own.name, free_name(all, own), own.medium, std::vector<int>(kinds.size(), -1)});
            else if (place < next)
                throw usage_error(
                    fmt::format("level \"{}\" lies inside \"{}\" in one kind of node, and outside it in "
                                "another; rename one of them",
                                own.name, (next - 1)->given));
            place->index[k] = l;
            next = place + 1;
        }
    }
    return all;
}

// Puts different nodes side by side. Levels are matched by name: if a node lacks a level that others have, its domains
// there have one child. If links differ, each keeps its rate; latency and overhead are the largest ones. Names of
// domains are dropped, as they belong to one node. Levels with one name but different fabrics (shm and bus count as
// equal) stay two levels; the later one has its fabric added to its name.
// @param kinds different nodes, without levels between nodes   @param node_kind by node: its index in `kinds`
// @returns the levels, and the children of their domains as tree() takes them, but without the levels above
// @throws usage_error if two kinds have levels in different orders
auto side_by_side(std::span<const job_node> kinds, std::span<const int> node_kind) {
    std::vector<level> levels;
    std::vector<std::vector<int>> children;
    std::vector<int> members;  // by kind: children of one node that the next level joins
    for (const job_node& k : kinds) members.push_back(k.levels.ranks());
    for (const shared_level& s : shared_levels(kinds, node_kind)) {
        std::optional<level> found;
        for (std::size_t k = 0; k < kinds.size(); ++k) {
            if (s.index[k] < 0) continue;
            const level& own = kinds[k].levels.levels[at(s.index[k])];
            if (!found) found = own;
            found->latency = std::max(found->latency, own.latency);
            found->overhead = std::max(found->overhead, own.overhead);
            found->bandwidth_assumed |= own.bandwidth_assumed;
            found->latency_assumed |= own.latency_assumed;
            found->overhead_assumed |= own.overhead_assumed;
            found->bandwidth = std::max(found->bandwidth, own.bandwidth);
        }
        found->name = s.name;
        found->names.clear();  // they name the domains of one node
        std::vector<double> rates;
        std::vector<int>& sizes = children.emplace_back();
        for (const int k : node_kind) {
            const int l = s.index[at(k)];
            // A level that joins nothing has no link of its own, so its rate does not matter.
            for (int c = 0; c < members[at(k)]; ++c)
                rates.push_back(l < 0 ? found->bandwidth : kinds[at(k)].levels.rate(l, c));
            if (l < 0) sizes.insert(sizes.end(), at(members[at(k)]), 1);
            else {
                const std::vector<int>& own = kinds[at(k)].levels.shape.children()[at(l)];
                sizes.insert(sizes.end(), own.begin(), own.end());
            }
        }
        for (std::size_t k = 0; k < kinds.size(); ++k)
            if (s.index[k] >= 0) members[k] = kinds[k].levels.shape.domains(s.index[k]);
        levels.push_back(with_rates(std::move(*found), std::move(rates)));
    }
    return std::pair(std::move(levels), std::move(children));
}

// Gives ranks the NICs that are near to them, if the cluster file has as many NICs as the node's description.
void place(nic_set& nics, int node, int first_rank, const std::optional<uplink>& up) {
    if (!up || at(nics.count_of(node)) != up->nics.size()) return;
    for (std::size_t r = 0; r < up->of_rank.size(); ++r)
        nics.of_rank[at(first_rank) + r] = nics.first_of(node) + up->of_rank[r];
}

// Gives nodes the NICs that their descriptions have, if some node has several.
void add_nics(hierarchy& machine, std::span<const job_node> kinds, std::span<const int> node_kind) {
    const int l = machine.node_levels(), nodes = static_cast<int>(node_kind.size());
    if (l == machine.depth() || machine.levels[at(l)].ring) return;
    if (machine.nics.empty()) {
        if (std::ranges::none_of(kinds, [](const job_node& k) { return k.up && k.up->nics.size() > 1; })) return;
        level& network = machine.levels[at(l)];
        std::vector<std::vector<double>> rates;
        std::vector<double> of_node;
        for (int node = 0; node < nodes; ++node) {
            const std::optional<uplink>& up = kinds[at(node_kind[at(node)])].up;
            of_node.push_back(network.bandwidth_assumed && up ? up->bandwidth : machine.rate(l, node));
            std::vector<double>& of_nics = rates.emplace_back(up && !up->nics.empty() ? up->nics : std::vector{1.0});
            const double all = std::accumulate(of_nics.begin(), of_nics.end(), 0.0);
            for (double& rate : of_nics) rate *= of_node.back() / all;
        }
        network.bandwidth_assumed &=
            std::ranges::any_of(kinds, [](const job_node& k) { return !k.up || k.up->assumed; });
        network = normalised(with_rates(std::move(network), std::move(of_node)));
        machine.nics = shared_nics(rates, machine.node_sizes());
    }
    for (int node = 0; node < nodes; ++node)
        place(machine.nics, node, machine.shape.first_rank(l - 1, node), kinds[at(node_kind[at(node)])].up);
}

}  // namespace

topology single_node(std::string name, node n) {
    topology t{std::move(name), std::move(n.levels), nullptr, std::move(n.parts.notes)};
    remark_on_gpu_links(n.parts, t.notes, t.warnings);
    t.node = std::make_shared<const part>(std::move(n.parts.machine));
    return t;
}

topology with_nodes(const hierarchy& above, topology inside) {
    return with_nodes(above, std::vector{std::move(inside)}, std::vector<int>(at(above.ranks()), 0));
}

hierarchy with_nodes(const hierarchy& above, std::span<const job_node> kinds, std::span<const int> kind_of_node) {
    std::int64_t ranks = 0;
    for (const int kind : kind_of_node) ranks += kinds[at(kind)].levels.ranks();
    if (ranks > max_ranks)
        throw usage_error(
            fmt::format("{} nodes of {} ranks in all are more than {} ranks", kind_of_node.size(), ranks, max_ranks));
    auto [levels, children] = side_by_side(kinds, kind_of_node);
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
    add_nics(whole, kinds, kind_of_node);
    limit_to_nics(whole);
    return whole;
}

topology with_nodes(const hierarchy& above, std::vector<topology> types, std::vector<int> type_of_node) {
    std::vector<job_node> kinds;
    for (const topology& t : types) {
        if (t.machine.node_levels() < t.machine.depth())
            throw usage_error("the nodes' description has levels between nodes already; give that of one node");
        kinds.push_back({t.machine, t.node ? uplink_of(*t.node) : std::nullopt});
    }
    hierarchy machine = with_nodes(above, kinds, type_of_node);
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

}  // namespace terrace::detail
