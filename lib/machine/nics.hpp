#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/document.hpp"

namespace terrace::detail {

/// The NICs of all nodes, by which ranks send to other nodes: those of the first node first. Empty where the file says
/// nothing of them: then the level's bandwidth is that of one link for all ranks of a node.
struct nic_set {
    std::vector<double> rates;  ///< of each NIC, per direction [B/s]
    std::vector<int> first;     ///< by node: its first NIC; one more entry at the end
    std::vector<int> of_rank;   ///< by rank: the NIC that it uses
    bool rails = false;         ///< NICs of equal place in their nodes are on a switch of their own
    double spine = 0;           ///< of the link of one rail's switch to the other rails, per direction [B/s]; 0: enough

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
    /// The NIC's place in its node, which is its rail.
    int rail_of(int nic) const noexcept { return nic - first_of(node_of(nic)); }
    /// The most rails that a node is on.
    int rail_count() const noexcept {
        int most = 0;
        for (int n = 0; n < nodes(); ++n) most = std::max(most, count_of(n));
        return most;
    }
    /// True if messages between the NICs leave their rail for the spine.
    bool crosses_spine(int from, int to) const noexcept { return rails && rail_of(from) != rail_of(to); }
    /// By node, the NICs that some rank uses, or all, together, per direction [B/s].
    std::vector<double> node_rates(bool all = false) const;
    /// By rank, what it has of its NIC where all ranks send, per direction [B/s].
    std::vector<double> rank_rates() const;

    friend bool operator==(const nic_set&, const nic_set&) = default;
};

/// NICs of nodes, which share them out among their ranks evenly: rank r of n uses NIC r c / n of c.
/// @param rates of each node's NICs   @param node_sizes ranks of each node
nic_set shared_nics(const std::vector<std::vector<double>>& rates, std::span<const int> node_sizes);

/// The NICs of the nodes in which some ranks are. @param ranks ascending
nic_set part_of(const nic_set& whole, std::span<const int> node_sizes, std::span<const int> ranks);

/// The same NICs, with the ranks of larger nodes: those of each share the NICs out evenly.
nic_set with_node_sizes(nic_set nics, std::span<const int> node_sizes);

/// Reads `nics:` of a level (docs/reference/topology-files.md). @throws input_error
/// @param node_rate of a node, which NICs share that have no rate of their own [B/s]; infinite: they have `usual`
nic_set read_nics(const document& entry, std::span<const int> node_sizes, const std::function<double(int)>& node_rate,
                  double usual);

/// "{count: 4, bandwidth: 250 Mbit/s}", which reads back equal.
std::string write_nics(const nic_set& nics, std::span<const int> node_sizes);

/// "4 NICs of 250 Mbit/s each on rails, spine 1 Gbit/s"; of nodes that differ "2-4 NICs of 125 Mbit/s to 250 Mbit/s".
std::string nics_text(const nic_set& nics);

}  // namespace terrace::detail
