#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "base/range.hpp"

namespace terrace::detail {

/// The ranks that run a stage together, and how they divide a part of the vector among them, as one of them sees it.
/// Immutable. Copies, and the same group as another member sees it, share the lists.
class group {
public:
    static constexpr int no_root = -1;

    /// @param members ranks by position
    /// @param shards consecutive parts of the vector, by position; may be empty
    /// @param root position of the member that has everything in mode root; in mode scatter, of the member that stands
    ///             for the root of the call; or no_root
    /// @param ordinal tells apart the groups that a rank belongs to in one stage
    /// @param position of the member that sees it so
    group(std::vector<int> members, std::vector<range> shards, int root = 0, int ordinal = 0, int position = 0)
        : lists_(std::make_shared<const lists>(lists{std::move(members), std::move(shards), {}})),
          root_(root),
          ordinal_(ordinal),
          position_(position) {}
    /// Returns a group of ranks 0 ... size - 1, with shards of one element each.
    static group numbered(int size);

    /// Returns the group as the member at a position sees it.
    group seen_from(int position) const {
        group same = *this;
        same.position_ = position;
        return same;
    }
    /// Returns the group as a rank sees it, which is a member.
    group seen_by(int rank) const { return seen_from(position_of(rank)); }
    /// Returns the group with the nodes of its members.
    /// @param nodes by position, members of one node next to each other
    group with_nodes(std::vector<int> nodes) const { return with(lists{members(), shards(), std::move(nodes)}); }
    /// Returns the group with other shards.
    group with_shards(std::vector<range> shards) const { return with(lists{members(), std::move(shards), nodes()}); }

    /// Returns the same group, but that a member beside the root owns the root's shard too, and the root nothing. A
    /// root that scatters so sends each element once, and has no part in the allgather that follows. One that gathers
    /// so gets each element once, and has had no part in the reduce-scatter.
    group with_root_relieved() const;
    /// Returns the others of that group.
    group without_root() const;

    const std::vector<int>& members() const noexcept { return lists_->members; }
    const std::vector<range>& shards() const noexcept { return lists_->shards; }
    /// The node of each member, by position; empty where that is unknown, or does not matter.
    const std::vector<int>& nodes() const noexcept { return lists_->nodes; }
    int size() const noexcept { return static_cast<int>(members().size()); }
    /// Returns all shards together.
    range whole() const noexcept { return {shards().front().begin, shards().back().end}; }
    int position() const noexcept { return position_; }
    int root() const noexcept { return root_; }
    bool is_root() const noexcept { return position_ == root_; }
    int ordinal() const noexcept { return ordinal_; }
    /// Returns the position of a rank, or size() if it is no member.
    int position_of(int rank) const noexcept { return detail::position_of(rank, members()); }
    bool contains(int rank) const noexcept { return position_of(rank) < size(); }

    /// Any integer names a position, counted around the group.
    int wrapped(int position) const noexcept { return wrap(position, size()); }
    int rank(int position) const noexcept { return members()[at(wrapped(position))]; }
    range shard(int position) const noexcept { return shards()[at(wrapped(position))]; }
    /// Returns the shard of the member that sees the group so.
    range own_shard() const noexcept { return shards()[at(position_)]; }
    /// Returns the shards of `n` <= size() successive positions: at most two ranges, the second one beyond the group's
    /// end.
    std::array<range, 2> shards_from(int position, int n) const noexcept;
    int next() const noexcept { return rank(position_ + 1); }
    int prev() const noexcept { return rank(position_ - 1); }

    friend bool operator==(const group& a, const group& b) {
        return a.position_ == b.position_ && a.root_ == b.root_ && a.ordinal_ == b.ordinal_ &&
               (a.lists_ == b.lists_ || *a.lists_ == *b.lists_);
    }

private:
    struct lists {
        std::vector<int> members;
        std::vector<range> shards;
        std::vector<int> nodes = {};
        bool operator==(const lists&) const = default;
    };

    group with(lists other) const {
        group same = *this;
        same.lists_ = std::make_shared<const lists>(std::move(other));
        return same;
    }

    std::shared_ptr<const lists> lists_;
    int root_, ordinal_, position_;
};

}  // namespace terrace::detail
