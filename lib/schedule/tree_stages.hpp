#pragma once

#include <bit>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "schedule/compose.hpp"

namespace terrace::detail {

/// A node of the one tree by which reproducible reductions combine the ranks: it stands for the ranks of consecutive
/// places, and every place alone is a leaf. Its left child has the first 2^k of the places, the largest power of two
/// below their number, its right child the others. So the tree of a node depends on nothing but its length.
struct tree_node {
    int begin = 0, end = 0;

    constexpr int length() const noexcept { return end - begin; }
    /// Returns where the right child begins. Of nodes of more than one place.
    constexpr int middle() const noexcept {
        return begin + static_cast<int>(std::bit_floor(static_cast<unsigned>(length() - 1)));
    }
    constexpr tree_node left() const noexcept { return {begin, middle()}; }
    constexpr tree_node right() const noexcept { return {middle(), end}; }

    friend bool operator==(tree_node, tree_node) = default;
};

/// Returns the nodes that the ranks at some places can reduce among themselves: the largest ones that have no other
/// places, ascending.
/// @param places ascending   @param all how many places there are
std::vector<tree_node> largest_nodes(std::span<const int> places, int all);

/// Returns true if nodes are combined by the tree as leaves of a tree of as many places are: in their order, one
/// reduction by the tree gives what `whole` stands for.
/// @param parts ascending, all of `whole`
bool are_like_leaves(tree_node whole, std::span<const tree_node> parts);

/// Fewer elements are not worth another cut between two members than that of their shards.
inline constexpr std::int64_t least_moved = 256;

/// The way up of a reproducible reduction, as one rank runs it: each element is reduced by one tree over the ranks,
/// whatever the stages are.
///
/// A domain whose ranks are no node of the tree holds several partial results of an element, one for each of the
/// largest nodes that are complete inside the domain. The owner of an element has all of them. Partial result j of
/// element i lies at element i of plane j, which is the vector where there is one partial result, and scratch else.
/// In a stage each member sends its partial results of the elements that another is to own to that one, which combines
/// them by the tree. Where all or one are to have everything, each may combine a part, and then sends that on. Of two
/// members one may combine elements that the other is to own, so that links carry as much one way as the other.
class tree_stages {
public:
    /// @param c a composition for a tree, of a rank that `can` do stages of its transport
    tree_stages(builder& out, const composition& c, int rank, const capabilities& can)
        : out_(out), c_(c), rank_(rank), can_(can) {
        planes_[0] = {plane()};
    }

    /// True if the stage may hand the group over to its provider, whose one reduction of all members in their order is
    /// the tree's. All members come to the same answer.
    bool may_hand_over(const composed_stage& s, const group& g);
    /// Emits the rank's part of a group's stage, as the members see it: fewer than 2 * g.size() steps.
    void exchange(const composed_stage& s, const group& g);
    /// Follows the last group of a stage.
    void end_stage(const composed_stage& s) {
        if (!next_.empty()) planes_[s.route] = std::exchange(next_, {});
    }

private:
    using nodes = std::vector<tree_node>;
    // The partial results before a stage of each child of the rank's domain (by composed_stage::domains), and after it.
    struct domain {
        std::map<int, nodes> before;
        nodes after;
    };
    // A partial result, and where it is.
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
    std::vector<plane> next_;                   // after the stage that is written
};

}  // namespace terrace::detail
