#include "topology/formats/placed_nodes.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

namespace terrace::detail {

namespace {

// Removes the levels in which no node has a place.
void drop_unknown(std::vector<placed_node>& nodes, std::vector<std::string>& levels) {
    for (std::size_t l = levels.size(); l-- > 0;) {
        if (std::ranges::any_of(nodes, [&](const placed_node& n) { return !n.within[l].empty(); })) continue;
        const auto place = static_cast<std::ptrdiff_t>(l);
        levels.erase(levels.begin() + place);
        for (placed_node& n : nodes) n.within.erase(n.within.begin() + place);
    }
}

}  // namespace

switch_network network_of(std::string source, std::vector<placed_node> nodes, std::vector<std::string> levels) {
    switch_network n{std::move(source)};
    n.slow_advice = "correct the rates in a cluster file (terrace topo ... --yaml)";
    if (nodes.empty()) n.fail({}, "the list of nodes is empty");
    if (nodes.size() > max_hosts) n.fail(nodes[max_hosts].where, fmt::format("more than {} nodes", max_hosts));
    for (const placed_node& node : nodes) n.expect_host_name(node.name, node.where);
    drop_unknown(nodes, levels);
    const bool has_levels = !levels.empty();
    const auto differs = [&](const placed_node& node) { return node.within.front() != nodes.front().within.front(); };
    const bool parted = has_levels && std::ranges::any_of(nodes, differs);
    if (!has_levels || parted) {
        levels.insert(levels.begin(), assumed_level);
        for (placed_node& node : nodes) node.within.insert(node.within.begin(), assumed_level);
    }
    if (!has_levels) n.notes.push_back("the file does not say how nodes are connected; one level is assumed");
    if (parted)
        n.notes.push_back(
            fmt::format("nothing in the file connects one {} with another; a level \"cluster\" above "
                        "all is assumed",
                        levels[1]));
    n.levels.assign(levels.rbegin(), levels.rend());

    std::unordered_map<std::string, std::size_t> known;  // index of each switch, by the path of its places
    for (const placed_node& node : nodes) {
        std::string place;
        std::size_t above = 0;
        for (std::size_t l = 0; l < levels.size(); ++l) {
            place += fmt::format("/{}:{}", node.within[l].size(), node.within[l]);
            const auto [entry, is_new] = known.emplace(place, n.switches.size());
            if (is_new) {
                n.switches.push_back({node.where, place});
                if (l > 0) n.switches[above].switches.push_back(place);
            }
            above = entry->second;
        }
        n.switches[above].nodes.push_back(node.name);
    }
    return n;
}

}  // namespace terrace::detail
