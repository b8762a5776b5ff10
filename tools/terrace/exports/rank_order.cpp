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
#include "tools/terrace/exports/formats.hpp"

namespace terrace::detail {

namespace {

// Ring neighbours' messages on each link of a level, both directions apart.
struct ring_load {
    std::vector<int> out, in;

    explicit ring_load(int links) : out(at(links)), in(at(links)) {}
    void pass(int from, int to) { ++out[at(from)], ++in[at(to)]; }
    int most(int link) const { return std::max(out[at(link)], in[at(link)]); }
};

// Returns how long a byte of each rank takes to its neighbour in a ring of the ranks in this order, on the busiest link
// [s].
double ring_time(const hierarchy& machine, const std::vector<int>& order) {
    const tree& shape = machine.shape;
    std::vector<ring_load> loads;
    for (int l = 0; l < machine.depth(); ++l) loads.emplace_back(shape.members(l));
    ring_load nics(machine.nics.empty() ? 0 : machine.nics.first_of(static_cast<int>(machine.node_sizes().size())));
    for (std::size_t i = 0; i < order.size(); ++i) {
        const int from = order[i], to = order[(i + 1) % order.size()];
        const int top = shape.common_level(from, to);
        for (int l = 0; l <= top; ++l) loads[at(l)].pass(shape.domain_of(l - 1, from), shape.domain_of(l - 1, to));
        if (!machine.nics.empty() && top >= machine.node_levels())
            nics.pass(machine.nics.of(from), machine.nics.of(to));
    }
    double longest = 0;
    for (int l = 0; l < machine.depth(); ++l)
        for (int link = 0; link < shape.members(l); ++link)
            longest = std::max(longest, loads[at(l)].most(link) / machine.rate(l, link));
    for (int nic = 0; nic < static_cast<int>(nics.out.size()); ++nic)
        longest = std::max(longest, nics.most(nic) / machine.nics.rate(nic));
    return longest;
}

// Returns the ranks with nodes in this order.
std::vector<int> by_nodes(const std::vector<int>& sizes, const std::vector<int>& nodes) {
    std::vector<int> first(sizes.size()), order;
    std::exclusive_scan(sizes.begin(), sizes.end(), first.begin(), 0);
    for (const int node : nodes)
        for (int slot = 0; slot < sizes[at(node)]; ++slot) order.push_back(first[at(node)] + slot);
    return order;
}

// Returns the ranks as they are dealt to nodes in turns.
std::vector<int> in_turns(const std::vector<int>& sizes) {
    std::vector<int> first(sizes.size()), order;
    std::exclusive_scan(sizes.begin(), sizes.end(), first.begin(), 0);
    for (int slot = 0; slot < std::ranges::max(sizes); ++slot)
        for (std::size_t node = 0; node < sizes.size(); ++node)
            if (slot < sizes[node]) order.push_back(first[node] + slot);
    return order;
}

// Says what the order is worth for libraries that send along a ring.
std::string gain(const hierarchy& machine) {
    if (machine.torus_level() < machine.depth()) return "# no prediction for rings: a torus has several ways\n";
    const std::vector<int> sizes = machine.node_sizes();
    std::vector<int> nodes(sizes.size());
    std::iota(nodes.begin(), nodes.end(), 0);
    const double own = ring_time(machine, by_nodes(sizes, nodes));
    constexpr int draws = 100;
    std::mt19937 random;  // the same orders each time
    double drawn = 0;
    for (int draw = 0; draw < draws; ++draw) {
        for (std::size_t i = nodes.size(); i > 1; --i) std::swap(nodes[i - 1], nodes[random() % i]);
        drawn += ring_time(machine, by_nodes(sizes, nodes)) / draws;
    }
    return fmt::format(
        "# predicted for long vectors: with nodes in {} drawn orders a ring takes {:.2f} times as long on average\n"
        "# (NCCL's rings, too), with ranks dealt to nodes in turns {:.2f} times (a flat ring)\n",
        draws, drawn / own, ring_time(machine, in_turns(sizes)) / own);
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
            "# of {} nodes, from the scheduler or by --hostfile. With hosts: in the cluster file, or --hosts,\n"
            "# terrace plan names them.\n",
            sizes.size());
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
