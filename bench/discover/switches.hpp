#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "bench/discover/nearness.hpp"
#include "bench/discover/probes.hpp"

namespace terrace::detail::bench {

/// Streams between nodes: of one rank of each, or of several ranks side by side if these carry more.
class node_network {
public:
    /// @param ranks of each node   @param lanes by node: the number of its ranks that send, from the first on
    node_network(careful_probes& net, std::vector<std::vector<int>> ranks, std::vector<int> lanes)
        : net_(net), ranks_(std::move(ranks)), lanes_(std::move(lanes)) {}

    int nodes() const noexcept { return static_cast<int>(ranks_.size()); }
    /// Returns the rate at which each stream arrives while all run [B/s], measured once.
    std::vector<double> rates_once(std::span<const stream> between) { return ask(between, true); }
    /// The same, measured until results agree.
    std::vector<double> rates(std::span<const stream> between) { return ask(between, false); }
    /// The same for one stream by itself.
    double rate(stream between);

private:
    std::vector<double> ask(std::span<const stream> between, bool once);

    careful_probes& net_;
    std::vector<std::vector<int>> ranks_;
    std::vector<int> lanes_;
};

/// Streams between nodes that ran at the same time, and the rate of each [B/s].
struct observation {
    std::vector<stream> between;
    std::vector<double> rates;
};

/// Observes streams that run by themselves.
std::vector<observation> observe_alone(node_network& net, std::uint64_t seed);

/// Observes all nodes while they send at once, each to every other node in turn, in shuffled orders.
std::vector<observation> observe_all(node_network& net, std::uint64_t seed);

/// Observes one half of the nodes sending to the other, and back, in shuffled orders. These are fewer streams, one per
/// rank, for processors that do not keep up with those of observe_all().
std::vector<observation> observe_halves(node_network& net, std::uint64_t seed);

/// Nested groups of nodes that share a link to the other nodes.
struct switch_level {
    grouping groups;            ///< group of each node
    std::vector<double> rates;  ///< rate of each group's link to the level around it, per direction [B/s]
    double confidence = 1;      ///< fraction of the misfit of slowed streams that the level explains
};

/// Levels, innermost first. The first level has one node per group; the level of all nodes is left out.
using switch_tree = std::vector<switch_level>;

/// Returns how far observed rates are from fair shares of the links of a tree, as a mean over streams. 0.1 is a tenth;
/// half or twice the rate is the worst.
double misfit(const switch_tree& tree, const std::vector<observation>& seen);

/// Finds groups of nodes beyond the `known` ones, from streams that slow one another down. A level counts only if it
/// lowers the expected rates of some streams by a tenth, and halves the misfit of these.
/// @param known groups of nodes, innermost first, nested
switch_tree find_switches(const std::vector<observation>& seen, int nodes, const std::vector<grouping>& known);

/// Measures the link of each group: all its nodes send to nodes of other groups.
void measure_uplinks(node_network& net, switch_tree& tree);

/// Removes levels whose links carry the whole rate of the level below, within a tenth: no measurement shows them.
/// @param known groups of nodes that are kept
void leave_out_idle(switch_tree& tree, const std::vector<grouping>& known);

}  // namespace terrace::detail::bench
