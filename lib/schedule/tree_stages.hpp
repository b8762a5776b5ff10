#pragma once

#include <bit>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "schedule/compose.hpp"

namespace terrace::detail {

/// A node of the tree by which reproducible reductions combine ranks. It covers ranks at consecutive places; a single
/// place is a leaf. Its left child has the first 2^k places, the largest power of two below their number, its right
/// child the others. So the tree below a node depends only on the node's length.
struct tree_node {
    int begin = 0, end = 0;

    constexpr int length() const noexcept { return end - begin; }
    /// Returns the first place of the right child. Requires length() > 1.
    constexpr int middle() const noexcept {
        return begin + static_cast<int>(std::bit_floor(static_cast<unsigned>(length() - 1)));
    }
    constexpr tree_node left() const noexcept { return {begin, middle()}; }
    constexpr tree_node right() const noexcept { return {middle(), end}; }

    friend bool operator==(tree_node, tree_node) = default;
};

/// Returns the largest nodes that consist of given places only, ascending: ranks at these places can reduce them
/// without others.
/// @param places ascending   @param all number of places of the tree
std::vector<tree_node> largest_nodes(std::span<const int> places, int all);

/// Returns true if the tree combines nodes like the leaves of a tree of as many places. One reduction of them, in their
/// order and by the tree, then is the value of `whole`.
/// @param parts ascending, together all of `whole`
bool are_like_leaves(tree_node whole, std::span<const tree_node> parts);

/// Least number of elements by which the cut between two members may differ from that of their shards.
inline constexpr std::int64_t least_moved = 256;

/// The way up of a reproducible reduction on one rank. Each element is reduced by one tree over the ranks, whatever the
/// stages are.
///
/// If a domain's ranks form no node of the tree, the domain has several partial results of an element: one for each of
/// the largest nodes inside the domain. The owner of an element has all of them. Partial result j of element i is
/// element i of plane j. If there is one partial result, its plane is the vector; other planes are in scratch. In a
/// stage each member sends its partial results of an element to the element's next owner, which combines them by the
/// tree. In modes root and replicate each member may combine a part and send it on. Of two members one may combine
/// elements for the other, so that links have equal loads in both directions.
class tree_stages {
public:
    /// @param c a composition for a tree   @param can stages that the rank's transport runs itself
    tree_stages(builder& out, const composition& c, int rank, const capabilities& can)
        : out_(out), c_(c), rank_(rank), can_(can) {
        planes_[0] = {plane()};
    }

    /// Returns true if the provider may run the group's stage: its one reduction of all members in order is that of the
    /// tree. All members get the same answer.
    bool may_hand_over(const composed_stage& s, const group& g);
    /// Emits the rank's part of a group's stage, in fewer than 2 * g.size() steps. @param g as seen by the rank
    void exchange(const composed_stage& s, const group& g);
    /// To be called after the last group of a stage.
    void end_stage(const composed_stage& s) {
        if (!next_.empty()) planes_[s.route] = std::exchange(next_, {});
    }

private:
    using nodes = std::vector<tree_node>;
    // Partial results of each child of the rank's domain before a stage (by composed_stage::domains), and after it.
    struct domain {
        std::map<int, nodes> before;
        nodes after;
    };
    // A partial result and its place.
    struct piece {
        tree_node node;
        builder::place where;
    };
    using plane = std::optional<std::int64_t>;  // its first element in scratch; none: the vector

    const domain& domain_of(const composed_stage& s, const group& g);
    const std::vector<plane>& planes_before(const composed_stage& s) const {
        const auto own = planes_.find(s.route);
        return own == planes_.end() ? planes_.at(0) : own->second;
    }
    const std::vector<plane>& planes_after(const composed_stage& s, const group& g);
    static builder::place in_plane(plane p, range part) {
        return p ? builder::place(operand{buffer::scratch, {*p + part.begin, *p + part.end}}) : builder::place(part);
    }
    bool combines_shards(const composed_stage& s, const group& g);
    std::vector<range> parts_of(const composed_stage& s, const group& g, bool by_shards);
    std::int64_t even_cut(const composed_stage& s, const group& g);
    void combine(builder::place dst, tree_node node, std::span<const piece> pieces);

    builder& out_;
    const composition& c_;
    int rank_;
    const capabilities& can_;
    std::map<const composed_stage*, domain> domains_;
    std::map<int, std::vector<plane>> planes_;  // by route; 0: before routes begin
    std::vector<plane> next_;                   // after the stage that is being written
};

}  // namespace terrace::detail
