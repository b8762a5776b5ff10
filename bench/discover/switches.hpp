#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "bench/discover/nearness.hpp"
#include "bench/discover/probes.hpp"

namespace terrace::detail::bench {

/// Streams between nodes: of one rank of each, or of several side by side where that carries more.
class node_network {
public:
    /// @param ranks of each node   @param lanes of each node: how many of its ranks send, from its first on
    node_network(careful_probes& net, std::vector<std::vector<int>> ranks, std::vector<int> lanes)
        : net_(net), ranks_(std::move(ranks)), lanes_(std::move(lanes)) {}

    int nodes() const noexcept { return static_cast<int>(ranks_.size()); }
    /// What arrives between nodes while all streams run [B/s]; asked once.
    std::vector<double> rates_once(std::span<const stream> between) { return ask(between, true); }
    /// The same, asked until answers agree.
    std::vector<double> rates(std::span<const stream> between) { return ask(between, false); }
    /// The same of one by itself.
    double rate(stream between);

private:
    std::vector<double> ask(std::span<const stream> between, bool once);

    careful_probes& net_;
    std::vector<std::vector<int>> ranks_;
    std::vector<int> lanes_;
};

/// Streams between nodes that ran at once, and what arrived of each [B/s].
struct observation {
    std::vector<stream> between;
    std::vector<double> rates;
};

/// Streams by themselves.
std::vector<observation> observe_alone(node_network& net, std::uint64_t seed);

/// All nodes send at once: to each other one in turn, in orders that are shuffled.
std::vector<observation> observe_all(node_network& net, std::uint64_t seed);

/// Half of the nodes send to the other half, and back, in orders that are shuffled: fewer streams, of which each rank
/// has one, where processors do not keep up with those of observe_all().
std::vector<observation> observe_halves(node_network& net, std::uint64_t seed);

/// Groups of nodes that share a link to the others, nested.
struct switch_level {
    grouping groups;            ///< of nodes
    std::vector<double> rates;  ///< by group, of its link to what is around it, per direction [B/s]
    double confidence = 1;      ///< the part of what was unlikely before it that it explains
};

/// Innermost first; the first one is that of nodes, each by itself. The last level, of all, is left out.
using switch_tree = std::vector<switch_level>;

/// How far what was seen is from what streams get over the links of a tree, the mean of all: 0.1 is a tenth, half or
/// twice the rate is the worst.
double misfit(const switch_tree& tree, const std::vector<observation>& seen);

/// Finds groups of nodes beyond those that are `known`, from who slows whom down. A level is found only if it changes
/// the rate of some streams by a tenth, and halves how far these are from what is expected.
/// @param known groups of nodes, innermost first, nested
switch_tree find_switches(const std::vector<observation>& seen, int nodes, const std::vector<grouping>& known);

/// Measures the links of groups: all nodes of one send to the others.
void measure_uplinks(node_network& net, switch_tree& tree);

/// Leaves out levels whose links carry all that comes from below, within a tenth: no measurement shows them.
/// @param known groups of nodes that are kept
void leave_out_idle(switch_tree& tree, const std::vector<grouping>& known);

}  // namespace terrace::detail::bench
