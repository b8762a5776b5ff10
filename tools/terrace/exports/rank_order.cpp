// Files that start ranks in the plan's order, node by node. A flat ring then crosses each link between nodes once in
// each direction, which helps all libraries that send along a ring.

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "machine/level_yaml.hpp"
#include "machine/link_rows.hpp"
#include "tools/terrace/exports/formats.hpp"

namespace terrace::detail {

namespace {

// Returns the time on the busiest link if each rank sends a byte to its neighbour in a ring in this order [s].
double ring_time(const link_rows& links, const std::vector<int>& order) {
    std::vector<int> messages(at(links.links()));
    for (std::size_t i = 0; i < order.size(); ++i)
        links.for_each_link(order[i], order[(i + 1) % order.size()],
                            [&](int link, int, bool) { ++messages[at(link)]; });
    double longest = 0;
    for (int link = 0; link < links.links(); ++link)
        if (messages[at(link)] > 0) longest = std::max(longest, messages[at(link)] / links.rate(link));
    return longest;
}

int first_rank(const hierarchy& machine, int node) { return machine.shape.first_rank(machine.node_levels() - 1, node); }

// Returns the ranks for this order of nodes.
std::vector<int> by_nodes(const hierarchy& machine, const std::vector<int>& nodes) {
    std::vector<int> order;
    for (const int node : nodes)
        for (int r = first_rank(machine, node); r < first_rank(machine, node + 1); ++r) order.push_back(r);
    return order;
}

// Returns the ranks dealt to the nodes in turns.
std::vector<int> in_turns(const hierarchy& machine) {
    const std::vector<int> sizes = machine.node_sizes();
    std::vector<int> order;
    for (int slot = 0; slot < std::ranges::max(sizes); ++slot)
        for (std::size_t node = 0; node < sizes.size(); ++node)
            if (slot < sizes[node]) order.push_back(first_rank(machine, static_cast<int>(node)) + slot);
    return order;
}

// Returns comment lines with the predicted gain of the order for libraries that send along a ring.
std::string gain(const hierarchy& machine) {
    if (machine.ranks() == 1) return "# no prediction for rings: there is one rank\n";
    if (machine.has_torus()) return "# no prediction for rings: a torus has several ways\n";
    const link_rows links(machine);
    std::vector<int> nodes = numbers_below(static_cast<int>(machine.node_sizes().size()));
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

std::string size_text(std::size_t ranks, std::size_t hosts) {
    return fmt::format("{} rank{} on {} host{}", ranks, ranks == 1 ? "" : "s", hosts, hosts == 1 ? "" : "s");
}

constexpr std::string_view made_by = "# made by terrace export";

std::string header(const plan_data& plan, const char* format) {
    return fmt::format("{} --to {}: {}\n{}", made_by, format,
                       size_text(at(plan.machine.ranks()), plan.machine.node_sizes().size()), gain(plan.machine));
}

// Returns the header, and a text for each node. @throws usage_error if the plan has no host names
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

// Collects the hosts and their numbers of ranks, in the ranks' order.
class order_reader {
public:
    explicit order_reader(const named_text& file) : file_(file) {}

    // Calls f for each line, with the groups of the form in the line.
    template <class F>
    void for_each(const char* form, const char* example, F&& f) {
        const std::regex compiled(form);
        for (const file_line& line : lines_of(file_)) {
            last_ = line;
            f(line, line.parts(compiled, example));
        }
    }

    // Adds the next ranks, on a host without ranks so far.
    void add(const file_line& line, const std::string& host, std::int64_t ranks) {
        if (!known_.insert(host).second) line.fail(fmt::format("host {} again, behind others", host));
        hosts_.emplace_back(host, 0);
        add_to_last(line, ranks);
    }
    // Adds one rank, on the last host or on a new one.
    void add_one(const file_line& line, const std::string& host) {
        if (!hosts_.empty() && hosts_.back().first == host) add_to_last(line, 1);
        else add(line, host, 1);
    }
    std::int64_t on_last() const { return hosts_.back().second; }

    // @throws input_error if the number of ranks differs from the first line, if Terrace wrote that line
    plan_facts finish() {
        if (hosts_.empty()) throw input_error(file_.name, 0, 0, "no ranks");
        plan_facts made{.says = size_text(ranks_, hosts_.size()), .lines = {}};
        const std::string first = file_.text.substr(0, file_.text.find('\n'));
        if (first.starts_with(made_by) && !first.ends_with(": " + made.says))
            last_.fail(fmt::format("{} up to here, but the first line is {:?}", made.says, first));
        for (const auto& [host, ranks] : hosts_) made.lines.push_back(fmt::format("{} {}", host, ranks));
        return made;
    }

private:
    void add_to_last(const file_line& line, std::int64_t ranks) {
        hosts_.back().second += ranks;
        ranks_ += at(static_cast<int>(ranks));
        if (ranks_ > at(max_ranks)) line.fail(fmt::format("more than {} ranks", max_ranks));
    }

    const named_text& file_;
    file_line last_;
    std::set<std::string> known_;
    std::vector<std::pair<std::string, std::int64_t>> hosts_;
    std::size_t ranks_ = 0;
};

// Reads a file with one line for each host and its ranks.
plan_facts read_hosts(const named_text& file, const char* form, const char* example) {
    order_reader order(file);
    order.for_each(form, example, [&](const file_line& line, const std::vector<std::string>& parts) {
        order.add(line, parts[1], line.integer(parts[2], 1, max_ranks));
    });
    return order.finish();
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

// Lines may be in any order.
plan_facts read_rankfile(const named_text& file) {
    struct place {
        file_line line;
        std::string host, slot;
    };
    order_reader order(file);
    std::map<std::int64_t, place> by_rank;
    order.for_each(
        R"(rank (\d+)=(\S+) slot=(\d+))", "rank 0=node01 slot=0", [&](const file_line& line, const auto& parts) {
            if (!by_rank.emplace(line.integer(parts[1], 0, max_ranks), place{line, parts[2], parts[3]}).second)
                line.fail(fmt::format("rank {} again", parts[1]));
        });
    std::int64_t next = 0;
    for (const auto& [rank, where] : by_rank) {
        if (rank != next++) where.line.fail(fmt::format("rank {}, but no rank {}", rank, next - 1));
        order.add_one(where.line, where.host);
        if (where.slot != fmt::format("{}", order.on_last() - 1))
            where.line.fail(
                fmt::format("slot {} of {}, but {} is the next one", where.slot, where.host, order.on_last() - 1));
    }
    return order.finish();
}

std::string openmpi_hostfile(const plan_data& plan, const export_options&) {
    return by_host(plan, "hostfile", [](std::size_t, const std::string& host, int ranks) {
        return fmt::format("{} slots={}\n", host, ranks);
    });
}

plan_facts read_hostfile(const named_text& file) { return read_hosts(file, R"((\S+) slots=(\d+))", "node01 slots=4"); }

std::string mpich_machinefile(const plan_data& plan, const export_options&) {
    return by_host(plan, "machinefile",
                   [](std::size_t, const std::string& host, int ranks) { return fmt::format("{}:{}\n", host, ranks); });
}

plan_facts read_machinefile(const named_text& file) { return read_hosts(file, R"(([^\s:]+):(\d+))", "node01:4"); }

std::string slurm_hostfile(const plan_data& plan, const export_options&) {
    return by_host(plan, "slurm", [](std::size_t, const std::string& host, int ranks) {
        std::string lines;
        for (int rank = 0; rank < ranks; ++rank) lines += host + "\n";
        return lines;
    });
}

plan_facts read_slurm_hostfile(const named_text& file) {
    order_reader order(file);
    order.for_each(R"([^\s:=,]+)", "node01",
                   [&](const file_line& line, const auto& parts) { order.add_one(line, parts[0]); });
    return order.finish();
}

std::string torchrun_lines(const plan_data& plan, const export_options&) {
    const std::size_t nodes = plan.machine.node_sizes().size();
    return by_host(plan, "torchrun", [&](std::size_t node, const std::string& host, int ranks) {
        return fmt::format("{}: torchrun --nnodes={} --node-rank={} --nproc-per-node={} --master-addr={} PROGRAM\n",
                           host, nodes, node, ranks, plan.machine.hosts.front());
    });
}

plan_facts read_torchrun_lines(const named_text& file) {
    order_reader order(file);
    const std::size_t nodes = lines_of(file).size();
    std::string first;
    std::size_t node = 0;
    order.for_each(
        R"((\S+): torchrun --nnodes=(\d+) --node-rank=(\d+) --nproc-per-node=(\d+) --master-addr=(\S+) \S.*)",
        "node01: torchrun --nnodes=2 --node-rank=0 --nproc-per-node=4 --master-addr=node01 PROGRAM",
        [&](const file_line& line, const auto& parts) {
            if (first.empty()) first = parts[1];
            for (const auto& [name, has, due] : {std::tuple("nnodes", parts[2], fmt::format("{}", nodes)),
                                                 std::tuple("node-rank", parts[3], fmt::format("{}", node++)),
                                                 std::tuple("master-addr", parts[5], first)})
                if (has != due) line.fail(fmt::format("--{} is {}, not {}", name, has, due));
            order.add(line, parts[1], line.integer(parts[4], 1, max_ranks));
        });
    return order.finish();
}

}  // namespace terrace::detail
