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

/// What a link is made of.
enum class fabric { shm, nvlink, pcie, bus, infiniband, ethernet };

std::string_view to_string(fabric f) noexcept;
/// Returns the fabric of a name, whatever its case, or of a usual other name for one (roce, ib, pci-e ...).
std::optional<fabric> parse_fabric(std::string_view text) noexcept;
/// Returns a message: the unknown name, the nearest fabric, and all of them.
std::string unknown_fabric(std::string_view text);
/// Whether the fabric connects machines (infiniband, ethernet) rather than parts of one.
constexpr bool between_nodes(fabric f) noexcept { return f == fabric::infiniband || f == fabric::ethernet; }

/// What moves buffers on GPUs over a level's links, NCCL or MPI. 0: not given, and assumed.
struct device_rates {
    double stage = 0;      ///< start-up of one collective of its own among a domain's children [s]
    double step = 0;       ///< start-up of one step's messages [s]
    double bandwidth = 0;  ///< of the link, as it uses it [B/s]
};

/// One level of a machine, as one of its links sees it.
struct level {
    std::string name;
    fabric medium = fabric::shm;
    double bandwidth = 0;            ///< one child's link into this level, per direction [B/s]
    double latency = 0;              ///< start-up of one message between ranks whose nearest common level this is [s]
    double overhead = 0;             ///< CPU time one message costs its endpoint (o) [s]
    bool bandwidth_assumed = false;  ///< from the table of defaults, not from a file
    bool latency_assumed = false;
    bool overhead_assumed = true;
    std::vector<double> rates = {};  ///< the links' bandwidths by child, where they differ; `bandwidth` is the fastest
    std::optional<device_rates> nccl = {},
                                mpi = {};  ///< what may move buffers on GPUs, as far as the file says what it takes
    bool ring =
        false;  ///< children are linked to their two neighbours, around; `bandwidth` is that of both links together
    wire_type wire = wire_type::exact;    ///< in which sums of floats may cross its links
    std::vector<std::string> names = {};  ///< of its domains, in order; empty where the file names none
};

/// A nesting of domains, innermost level first. The children of level 0 are ranks, numbered in order; the last level
/// has exactly one domain, the whole machine. Domains of a level need not have equally many children. Immutable.
class tree {
public:
    tree() = default;
    /// @param children children[l][d] = number of children of domain d of level l; each level's sum is the number of
    ///        domains of the level below (the number of ranks for l = 0). Every entry >= 1. @throws usage_error
    explicit tree(std::vector<std::vector<int>> children);
    /// Every domain of level l has sizes[l] children.
    static tree uniform(std::span<const int> sizes);

    int depth() const noexcept { return static_cast<int>(children_.size()); }
    int ranks() const noexcept { return ranks_; }
    int domains(int l) const noexcept { return static_cast<int>(children_[at(l)].size()); }
    int children(int l, int d) const noexcept { return children_[at(l)][at(d)]; }
    const std::vector<std::vector<int>>& children() const noexcept { return children_; }
    /// Children of level l in the whole machine: ranks for l = 0, else the domains of level l - 1.
    int members(int l) const noexcept { return l == 0 ? ranks_ : domains(l - 1); }
    /// First child of domain d of level l, counted over the whole level; d == domains(l) gives members(l).
    int first_child(int l, int d) const noexcept { return first_child_[at(l)][at(d)]; }
    /// First rank of domain d of level l; d == domains(l) gives ranks(). Level -1: ranks themselves.
    int first_rank(int l, int d) const noexcept { return l < 0 ? d : first_rank_[at(l)][at(d)]; }
    /// The domain of level l that has the child, counted over the whole level.
    int parent(int l, int child) const noexcept {
        const int size = size_[at(l)];
        return size > 0 ? child / size : parents_[at(l)][at(child)];
    }
    /// The domain of level l that holds the rank. Level -1: the rank itself.
    int domain_of(int l, int rank) const noexcept {
        int domain = rank;
        for (int inner = 0; inner <= l; ++inner) domain = parent(inner, domain);
        return domain;
    }
    /// The number of children if it is the same for all domains of the level.
    std::optional<int> uniform_size(int l) const noexcept {
        return size_[at(l)] > 0 ? std::optional(size_[at(l)]) : std::nullopt;
    }
    bool uniform() const noexcept { return std::ranges::find(size_, 0) == size_.end(); }
    /// The innermost level at which both ranks are in one domain; -1 if they are one rank.
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
    std::vector<int> size_;                  // by level, children of each domain; 0 where that differs
    std::vector<std::vector<int>> parents_;  // by level and child, where it differs
    int ranks_ = 0;
};

/// What ranks compute with, and how their messages leave.
struct processors {
    double reduction = 0;                 ///< bytes that a rank adds up in a second while all do [B/s]; 0: not known
    std::int64_t segment = wire_segment;  ///< [bytes] the transport cuts longer messages into pieces of at most this

    friend bool operator==(const processors&, const processors&) = default;
};

/// Levels and how they nest: all that plans know of a machine.
struct hierarchy {
    std::vector<level> levels;
    tree shape;
    terrace::detail::processors processors = {};
    std::vector<std::string> hosts = {};  ///< the nodes' names, in order; empty where the file names none
    nic_set nics = {};                    ///< of the nodes; the link of a node is at most as fast as those in use

    int depth() const noexcept { return shape.depth(); }
    int ranks() const noexcept { return shape.ranks(); }
    /// Returns what a child's link into a level carries per direction [B/s]. @param child counted over the machine
    double rate(int l, int child) const noexcept {
        const level& of = levels[at(l)];
        return of.rates.empty() ? of.bandwidth : of.rates[at(child)];
    }
    /// Returns the part of the bandwidth that one direction has, for a level whose children form rings.
    double ring_share(int l) const noexcept { return shape.children(l, 0) > 2 ? 0.5 : 1; }
    /// The first level whose children form rings, a dimension of a torus as all further ones are; depth() if there is
    /// none.
    int torus_level() const noexcept {
        return static_cast<int>(std::ranges::find(levels, true, &level::ring) - levels.begin());
    }
    bool has_torus() const noexcept { return torus_level() < depth(); }
    /// How many of the innermost levels lie within one node; 0 if every rank is a node of its own.
    int node_levels() const noexcept {
        return static_cast<int>(std::ranges::find_if(levels, between_nodes, &level::medium) - levels.begin());
    }
    /// Ranks of each node, in order.
    std::vector<int> node_sizes() const;
};

/// Hops from one place on a ring to another, the shorter way; negative: downwards.
constexpr int ring_hops(int from, int to, int size) noexcept {
    const int up = to < from ? to - from + size : to - from;
    return 2 * up <= size ? up : up - size;
}

/// What some ranks leave of a machine: all its levels, without the domains and hosts that have none of them. Of a torus
/// rings are not left: one link of each child then counts.
/// @param ranks ascending, at least one
hierarchy part_of(const hierarchy& whole, std::span<const int> ranks);
/// The same ranks without the levels that join nothing, where a domain has one child; one level stays.
hierarchy without_idle_levels(const hierarchy& h);

/// Makes the link of each node at most as fast as the NICs that its ranks use.
void limit_to_nics(hierarchy& h);

/// The level with these bandwidths of its children's links, [B/s].
level with_rates(level l, std::vector<double> rates);

/// "3 x 2 x 2", innermost first; uneven levels as "1-3".
std::string shape_text(const tree& t);

}  // namespace terrace::detail
