#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/index.hpp"
#include "base/range.hpp"
#include "base/wire.hpp"
#include "base/wire_type.hpp"
#include "machine/nics.hpp"

namespace terrace::detail {

/// The kind of a link.
enum class fabric { shm, nvlink, pcie, bus, infiniband, ethernet };

std::string_view to_string(fabric f) noexcept;
/// Returns the fabric with this name, or with this usual other name (roce, ib, pci-e ...), in upper or lower case.
std::optional<fabric> parse_fabric(std::string_view text) noexcept;
/// Returns an error message with the unknown name, the most similar fabric, and all fabrics.
std::string unknown_fabric(std::string_view text);
/// Returns true if the fabric connects machines (infiniband, ethernet), not parts of one.
constexpr bool between_nodes(fabric f) noexcept { return f == fabric::infiniband || f == fabric::ethernet; }

/// The rates of NCCL or of MPI for buffers on GPUs over a level's links. 0: not given, and assumed.
struct device_rates {
    double stage = 0;      ///< start-up of one of NCCL's own collectives among a domain's children [s]
    double step = 0;       ///< start-up of one step's messages [s]
    double bandwidth = 0;  ///< rate that NCCL or MPI reaches on a child's link [B/s]
};

/// One level of a machine. Rates are those of one link.
struct level {
    std::string name;
    fabric medium = fabric::shm;
    double bandwidth = 0;            ///< one child's link into this level, per direction [B/s]
    double latency = 0;              ///< start-up of one message between ranks whose nearest common level this is [s]
    double overhead = 0;             ///< processor time of one message at each end (o) [s]
    bool bandwidth_assumed = false;  ///< from the table of defaults, not from a file
    bool latency_assumed = false;
    bool overhead_assumed = true;
    std::vector<double> rates = {};  ///< bandwidths of the links by child, if they differ; `bandwidth` is the fastest
    std::optional<device_rates> nccl = {}, mpi = {};  ///< rates of NCCL and MPI between GPUs, if the file has them
    bool ring = false;  ///< children form a ring; `bandwidth` is that of the links to both neighbours together
    wire_type wire = wire_type::exact;    ///< type in which sums of floats may cross its links
    std::vector<std::string> names = {};  ///< names of its domains, in order; empty if the file has none
};

/// A nesting of domains, innermost level first. The children of level 0 are ranks, numbered in order; the last level
/// has exactly one domain, the whole machine. Domains of a level may have different numbers of children. Immutable.
class tree {
public:
    tree() = default;
    /// @param children children[l][d] = number of children of domain d of level l; each level's sum is the number of
    ///        domains of the level below (the number of ranks for l = 0). Every entry >= 1. @throws usage_error
    explicit tree(std::vector<std::vector<int>> children);
    /// Returns a tree in which every domain of level l has sizes[l] children.
    static tree uniform(std::span<const int> sizes);

    int depth() const noexcept { return static_cast<int>(children_.size()); }
    int ranks() const noexcept { return ranks_; }
    int domains(int l) const noexcept { return static_cast<int>(children_[at(l)].size()); }
    int children(int l, int d) const noexcept { return children_[at(l)][at(d)]; }
    const std::vector<std::vector<int>>& children() const noexcept { return children_; }
    /// Returns the number of children of level l in the whole machine: ranks for l = 0, else domains of level l - 1.
    int members(int l) const noexcept { return l == 0 ? ranks_ : domains(l - 1); }
    /// Returns the first child of domain d of level l, counted over the whole level; d == domains(l) gives members(l).
    int first_child(int l, int d) const noexcept { return first_child_[at(l)][at(d)]; }
    /// Returns the first rank of domain d of level l; d == domains(l) gives ranks(). Level -1: the rank itself.
    int first_rank(int l, int d) const noexcept { return l < 0 ? d : first_rank_[at(l)][at(d)]; }
    /// Returns the domain of level l that contains the child; both are counted over the whole level.
    int parent(int l, int child) const noexcept {
        const int size = size_[at(l)];
        return size > 0 ? child / size : parents_[at(l)][at(child)];
    }
    /// Returns the domain of level l that contains the rank. Level -1: the rank itself.
    int domain_of(int l, int rank) const noexcept {
        int domain = rank;
        for (int inner = 0; inner <= l; ++inner) domain = parent(inner, domain);
        return domain;
    }
    /// Returns the number of children per domain if it is the same for all domains of the level.
    std::optional<int> uniform_size(int l) const noexcept {
        return size_[at(l)] > 0 ? std::optional(size_[at(l)]) : std::nullopt;
    }
    bool uniform() const noexcept { return std::ranges::find(size_, 0) == size_.end(); }
    /// Returns the innermost level at which both ranks are in one domain; -1 if they are equal.
    int common_level(int a, int b) const noexcept {
        int l = -1;
        for (; a != b; a = parent(l, a), b = parent(l, b)) ++l;
        return l;
    }

    friend bool operator==(const tree& a, const tree& b) noexcept { return a.children_ == b.children_; }

private:
    std::vector<std::vector<int>> children_;
    std::vector<std::vector<int>> first_child_;
    std::vector<std::vector<int>> first_rank_;
    std::vector<int> size_;                  // by level: children of each domain; 0 if domains differ
    std::vector<std::vector<int>> parents_;  // by level and child: its domain; none for a level with equal domains
    int ranks_ = 0;
};

/// How fast ranks reduce, and how their messages are cut.
struct processors {
    double reduction = 0;                 ///< rate at which a rank reduces while all do [B/s]; 0: unknown
    std::int64_t segment = wire_segment;  ///< largest segment into which the transport cuts messages [bytes]

    friend bool operator==(const processors&, const processors&) = default;
};

/// The description of a machine that plans are made from: its levels, and how domains nest.
struct hierarchy {
    std::vector<level> levels;
    tree shape;
    terrace::detail::processors processors = {};
    std::vector<std::string> hosts = {};  ///< names of the nodes, in order; empty if the file has none
    nic_set nics = {};                    ///< NICs of the nodes; a node's link is at most as fast as its NICs in use

    int depth() const noexcept { return shape.depth(); }
    int ranks() const noexcept { return shape.ranks(); }
    /// Returns the rate of a child's link into a level, per direction [B/s]. @param child counted over the machine
    double rate(int l, int child) const noexcept {
        const level& of = levels[at(l)];
        return of.rates.empty() ? of.bandwidth : of.rates[at(child)];
    }
    /// Returns the fraction of `bandwidth` in one direction around the ring, for a level whose children form rings.
    double ring_share(int l) const noexcept { return shape.children(l, 0) > 2 ? 0.5 : 1; }
    /// Returns the first level whose children form rings. It is a dimension of a torus, like all levels outside it.
    /// Returns depth() if there is none.
    int torus_level() const noexcept {
        return static_cast<int>(std::ranges::find(levels, true, &level::ring) - levels.begin());
    }
    bool has_torus() const noexcept { return torus_level() < depth(); }
    /// Returns the number of levels inside a node; 0 if every rank is a node of its own.
    int node_levels() const noexcept {
        return static_cast<int>(std::ranges::find_if(levels, between_nodes, &level::medium) - levels.begin());
    }
    /// Returns the number of ranks of each node, in order.
    std::vector<int> node_sizes() const;
};

/// Returns the hops from one place on a ring to another, in the shorter direction; negative: downwards.
constexpr int ring_hops(int from, int to, int size) noexcept {
    const int up = to < from ? to - from + size : to - from;
    return 2 * up <= size ? up : up - size;
}

/// Returns the part of a machine that has the given ranks: all levels, without domains and hosts that have none of the
/// ranks. A smaller part of a torus has no rings: only one link of each child counts.
/// @param ranks ascending, at least one
hierarchy part_of(const hierarchy& whole, std::span<const int> ranks);
/// Returns the machine without the levels whose domains have one child each; at least one level stays.
hierarchy without_idle_levels(const hierarchy& h);

/// Limits the rate of each node's link to that of the NICs that its ranks use.
void limit_to_nics(hierarchy& h);

/// Returns the level with these bandwidths of its children's links [B/s].
level with_rates(level l, std::vector<double> rates);

/// Returns "3 x 2 x 2", innermost first; uneven levels as "1-3".
std::string shape_text(const tree& t);

}  // namespace terrace::detail
