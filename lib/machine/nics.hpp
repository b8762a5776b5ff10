#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/document.hpp"

namespace terrace::detail {

/// The NICs of all nodes, by which ranks send to other nodes, ordered by node. Empty if the file describes none: all
/// ranks of a node then share one link of the level's bandwidth.
struct nic_set {
    std::vector<double> rates;  ///< rate of each NIC, per direction [B/s]
    std::vector<int> first;     ///< by node: its first NIC; last entry: count()
    std::vector<int> of_rank;   ///< by rank: the NIC that it uses
    bool rails = false;         ///< NICs with equal places in their nodes share a switch of their own: a rail
    double spine = 0;           ///< rate from one rail's switch to the other rails, per direction [B/s]; 0: unlimited

    bool empty() const noexcept { return rates.empty(); }
    int count() const noexcept { return static_cast<int>(rates.size()); }
    int nodes() const noexcept { return first.empty() ? 0 : static_cast<int>(first.size()) - 1; }
    int count_of(int node) const noexcept { return first_of(node + 1) - first_of(node); }
    int first_of(int node) const noexcept { return first[static_cast<std::size_t>(node)]; }
    int of(int rank) const noexcept { return of_rank[static_cast<std::size_t>(rank)]; }
    double rate(int nic) const noexcept { return rates[static_cast<std::size_t>(nic)]; }
    int node_of(int nic) const noexcept {
        return static_cast<int>(std::ranges::upper_bound(first, nic) - first.begin()) - 1;
    }
    /// Returns the NIC's place in its node, which is its rail.
    int rail_of(int nic) const noexcept { return nic - first_of(node_of(nic)); }
    /// Returns the largest number of rails of a node.
    int rail_count() const noexcept {
        int most = 0;
        for (int n = 0; n < nodes(); ++n) most = std::max(most, count_of(n));
        return most;
    }
    /// Returns true if messages between the NICs leave their rail for the spine.
    bool crosses_spine(int from, int to) const noexcept { return rails && rail_of(from) != rail_of(to); }
    /// Returns by node the total rate of the NICs that ranks use, or of all NICs, per direction [B/s].
    std::vector<double> node_rates(bool all = false) const;
    /// Returns by rank its part of the rate of its NIC while all ranks send, per direction [B/s].
    std::vector<double> rank_rates() const;

    friend bool operator==(const nic_set&, const nic_set&) = default;
};

/// Returns NICs that the ranks of each node share evenly: rank r of n uses NIC r c / n of c.
/// @param rates of the NICs, by node [B/s]   @param node_sizes ranks of each node
nic_set shared_nics(const std::vector<std::vector<double>>& rates, std::span<const int> node_sizes);

/// Returns the NICs of the nodes that have the given ranks. @param ranks ascending
nic_set part_of(const nic_set& whole, std::span<const int> node_sizes, std::span<const int> ranks);

/// Returns the same NICs for nodes with other numbers of ranks, which share the NICs of a node evenly.
nic_set with_node_sizes(nic_set nics, std::span<const int> node_sizes);

/// Reads `nics:` of a level (docs/reference/topology-files.md). @throws input_error
/// @param node_rate rate that the NICs of a node share if they have none of their own [B/s]; infinite: each has `usual`
nic_set read_nics(const document& entry, std::span<const int> node_sizes, const std::function<double(int)>& node_rate,
                  double usual);

/// Returns "{count: 4, bandwidth: 250 Mbit/s}", which reads back equal.
std::string write_nics(const nic_set& nics, std::span<const int> node_sizes);

/// Returns "4 NICs of 250 Mbit/s on rails, spine 1 Gbit/s"; if nodes differ, "2-4 NICs of 125 Mbit/s to 250 Mbit/s".
std::string nics_text(const nic_set& nics);

}  // namespace terrace::detail
