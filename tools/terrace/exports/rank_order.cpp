// Files that start ranks in the plan's order, node by node. A flat ring then crosses each link between nodes once in
// each direction, which helps every library that sends along a ring.

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "planner/simulate/links.hpp"
#include "tools/terrace/exports/formats.hpp"

namespace terrace::detail {

namespace {

// Returns how long a byte of each rank takes to its neighbour in a ring of the ranks in this order, on the busiest link
// [s].
double ring_time(const link_loads& links, const std::vector<int>& order) {
    std::vector<int> messages(at(links.size()));
    for (std::size_t i = 0; i < order.size(); ++i)
        links.for_each_link(order[i], order[(i + 1) % order.size()], [&](int link) { ++messages[at(link)]; });
    double longest = 0;
    for (int link = 0; link < links.size(); ++link)
        if (messages[at(link)] > 0) longest = std::max(longest, messages[at(link)] / links.rate(link));
    return longest;
}

int first_rank(const hierarchy& machine, int node) { return machine.shape.first_rank(machine.node_levels() - 1, node); }

// Returns the ranks with nodes in this order.
std::vector<int> by_nodes(const hierarchy& machine, const std::vector<int>& nodes) {
    std::vector<int> order;
    for (const int node : nodes)
        for (int r = first_rank(machine, node); r < first_rank(machine, node + 1); ++r) order.push_back(r);
    return order;
}

// Returns the ranks as they are dealt to nodes in turns.
std::vector<int> in_turns(const hierarchy& machine) {
    const std::vector<int> sizes = machine.node_sizes();
    std::vector<int> order;
    for (int slot = 0; slot < std::ranges::max(sizes); ++slot)
        for (std::size_t node = 0; node < sizes.size(); ++node)
            if (slot < sizes[node]) order.push_back(first_rank(machine, static_cast<int>(node)) + slot);
    return order;
}

// Says what the order is worth for libraries that send along a ring.
std::string gain(const hierarchy& machine) {
    if (machine.ranks() == 1) return "# no prediction for rings: there is one rank\n";
    if (machine.has_torus()) return "# no prediction for rings: a torus has several ways\n";
    const link_loads links(machine, false);
    std::vector<int> nodes(machine.node_sizes().size());
    std::iota(nodes.begin(), nodes.end(), 0);
    const double own = ring_time(links, by_nodes(machine, nodes));
    constexpr int draws = 100;
    std::mt19937 random;  // the same orders each time
    double drawn = 0;
    for (int draw = 0; draw < draws; ++draw) {
        for (std::size_t i = nodes.size(); i > 1; --i) std::swap(nodes[i - 1], nodes[random() % i]);
        drawn += ring_time(links, by_nodes(machine, nodes)) / draws;
    }
    return fmt::format(
        "# predicted for long vectors: with nodes in {} drawn orders a ring takes {:.2f} times as long on average\n"
        "# (NCCL's rings, too), with ranks dealt to nodes in turns {:.2f} times (a flat ring)\n",
        draws, drawn / own, ring_time(links, in_turns(machine)) / own);
}

std::string header(const plan_data& plan, const char* format) {
    return fmt::format("# made by terrace export --to {}\n{}", format, gain(plan.machine));
}

// Returns the header, and a text for each node. @throws usage_error if the plan names no hosts
template <class Text>
std::string by_host(const plan_data& plan, const char* format, Text&& text) {
    const hierarchy& machine = plan.machine;
    if (machine.hosts.empty())
        throw usage_error(
            fmt::format("terrace export --to {}: the plan names no hosts; write `hosts:` into the cluster file, or "
                        "plan with --hosts, and plan again",
                        format));
    std::string out = header(plan, format);
    const std::vector<int> sizes = machine.node_sizes();
    for (std::size_t node = 0; node < sizes.size(); ++node) out += text(node, machine.hosts[node], sizes[node]);
    return out;
}

}  // namespace

std::string openmpi_rankfile(const plan_data& plan, const export_options&) {
    const hierarchy& machine = plan.machine;
    std::string out = header(plan, "rankfile");
    const std::vector<int> sizes = machine.node_sizes();
    if (machine.hosts.empty())
        out += fmt::format(
            "# The plan names no hosts: +n0 is the first node of mpirun's allocation, so that mpirun needs one\n"
            "# of {} node{}, from the scheduler or by --hostfile. With hosts: in the cluster file, or --hosts,\n"
            "# terrace plan names them.\n",
            sizes.size(), sizes.size() == 1 ? "" : "s");
    int rank = 0;
    for (std::size_t node = 0; node < sizes.size(); ++node)
        for (int slot = 0; slot < sizes[node]; ++slot)
            out += fmt::format("rank {}={} slot={}\n", rank++,
                               machine.hosts.empty() ? fmt::format("+n{}", node) : machine.hosts[node], slot);
    return out;
}

std::string openmpi_hostfile(const plan_data& plan, const export_options&) {
    return by_host(plan, "hostfile", [](std::size_t, const std::string& host, int ranks) {
        return fmt::format("{} slots={}\n", host, ranks);
    });
}

std::string mpich_machinefile(const plan_data& plan, const export_options&) {
    return by_host(plan, "machinefile",
                   [](std::size_t, const std::string& host, int ranks) { return fmt::format("{}:{}\n", host, ranks); });
}

std::string slurm_hostfile(const plan_data& plan, const export_options&) {
    return by_host(plan, "slurm", [](std::size_t, const std::string& host, int ranks) {
        std::string lines;
        for (int rank = 0; rank < ranks; ++rank) lines += host + "\n";
        return lines;
    });
}

std::string torchrun_lines(const plan_data& plan, const export_options&) {
    const std::size_t nodes = plan.machine.node_sizes().size();
    return by_host(plan, "torchrun", [&](std::size_t node, const std::string& host, int ranks) {
        return fmt::format("{}: torchrun --nnodes={} --node-rank={} --nproc-per-node={} --master-addr={} PROGRAM\n",
                           host, nodes, node, ranks, plan.machine.hosts.front());
    });
}

}  // namespace terrace::detail
