#include "api/creation/placement.hpp"

#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/hosts.hpp"
#include "base/index.hpp"

namespace terrace::detail {

namespace {

constexpr std::string_view what_helps =
    "plan for these nodes, or set options::place to anywhere (terrace-bench --placement anywhere) to try the plan all "
    "the same";

// Returns the plan's node of each node of the job, by host name. @param sizes ranks per node, by lowest rank
std::vector<int> nodes_by_name(const hierarchy& machine, const std::map<int, int>& sizes,
                               std::span<const std::string> hosts) {
    const host_index planned(machine.hosts, "the plan's");
    const auto planned_node = [&](const std::string& host) {
        try {
            return static_cast<int>(planned.find(host));
        } catch (const usage_error& e) {
            throw plan_error(fmt::format("topology.levels: {}; {}", e.what(), what_helps));
        }
    };
    std::map<int, std::string_view> found;  // names, by the plan's node
    const std::vector<int> expected = machine.node_sizes();
    std::vector<int> nodes;
    for (const auto& [leader, size] : sizes) {
        const std::string& host = hosts[at(leader)];
        const int node = planned_node(host);
        if (!found.emplace(node, host).second)
            throw plan_error(
                fmt::format("topology.levels: two nodes of the job have the host name \"{}\", one in the plan; {}",
                            host, what_helps));
        if (size != expected[at(node)])
            throw plan_error(fmt::format("topology.levels: host \"{}\" has {} ranks in the plan, and {} in the job; {}",
                                         host, expected[at(node)], size, what_helps));
        nodes.push_back(node);
    }
    return nodes;
}

std::vector<int> nodes_in_order(const hierarchy& machine, const std::map<int, int>& sizes, std::string_view apart) {
    std::vector<int> found, nodes;
    for (const auto& [leader, size] : sizes) {
        nodes.push_back(static_cast<int>(found.size()));
        found.push_back(size);
    }
    const std::vector<int> expected = machine.node_sizes();
    if (found != expected)
        throw plan_error(
            fmt::format("topology.levels: ranks per node are {} in the plan, and {} in the job (those of a "
                        "node share its host name and /dev/shm{}{}); start the ranks node by node as planned, {}",
                        fmt::join(expected, " "), fmt::join(found, " "), apart.empty() ? "" : ": ", apart, what_helps));
    return nodes;
}

}  // namespace

std::vector<int> places_of(const hierarchy& machine, std::span<const int> nodes, std::span<const std::string> hosts,
                           std::string_view apart) {
    std::map<int, int> sizes;  // by lowest rank
    for (const int leader : nodes) ++sizes[leader];
    const std::vector<int> planned =
        hosts.empty() ? nodes_in_order(machine, sizes, apart) : nodes_by_name(machine, sizes, hosts);
    std::map<int, int> next;  // free place, by lowest rank
    for (auto [node, i] = std::pair(sizes.begin(), std::size_t{0}); node != sizes.end(); ++node, ++i)
        next.emplace(node->first, machine.shape.first_rank(machine.node_levels() - 1, planned[i]));
    std::vector<int> places;
    for (const int leader : nodes) places.push_back(next[leader]++);
    return places;
}

team in_places(team ranks, const hierarchy& machine, options::placement place) {
    if (ranks.size() != machine.ranks())
        throw plan_error(
            fmt::format("topology.levels: the plan is for {0} ranks ({1}), but the communicator has {2}; "
                        "start {0} ranks, or plan for this job (terrace plan --hosts, or no plan at all)",
                        machine.ranks(), shape_text(machine.shape), ranks.size()));
    if (place == options::placement::anywhere) return ranks;
    const std::vector<std::string> hosts =
        machine.hosts.empty() ? std::vector<std::string>{} : ranks.exchange(host_name());
    const int mine = places_of(machine, ranks.nodes(), hosts, ranks.memory_apart())[at(ranks.rank())];
    return *ranks.split(0, mine);
}

}  // namespace terrace::detail
