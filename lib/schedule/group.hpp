#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "base/range.hpp"

namespace terrace::detail {

/// The ranks that run a stage together, and their shards of a part of the vector, as seen by one member. Immutable.
/// Copies, and the views of other members, share the lists.
class group {
public:
    static constexpr int no_root = -1;

    /// @param members ranks by position
    /// @param shards consecutive parts of the vector, by position; may be empty
    /// @param root position of the member that has everything in mode root; in mode scatter, of the member from the
    /// domain with the root of the call; or no_root
    /// @param ordinal distinguishes the groups of a rank in one stage
    /// @param position of the member whose view this is
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
    /// Returns the group as one of its members sees it.
    group seen_by(int rank) const { return seen_from(position_of(rank)); }
    /// Returns the group with the nodes of its members.
    /// @param nodes by position, members of one node next to each other
    group with_nodes(std::vector<int> nodes) const { return with(lists{members(), shards(), std::move(nodes)}); }
    /// Returns the group with other shards.
    group with_shards(std::vector<range> shards) const { return with(lists{members(), std::move(shards), nodes()}); }

    /// Returns the group with the root's shard moved to a member beside the root. The root then sends each element once
    /// in a scatter, and is not in the allgather after it. In a gather it receives each element once, and was not in
    /// the reduce-scatter before it.
    group with_root_relieved() const;
    /// Returns the members of with_root_relieved() without the root, as a group.
    group without_root() const;

    const std::vector<int>& members() const noexcept { return lists_->members; }
    const std::vector<range>& shards() const noexcept { return lists_->shards; }
    /// Returns the node of each member, by position; empty if unknown or not needed.
    const std::vector<int>& nodes() const noexcept { return lists_->nodes; }
    int size() const noexcept { return static_cast<int>(members().size()); }
    /// Returns the range of all shards together.
    range whole() const noexcept { return {shards().front().begin, shards().back().end}; }
    int position() const noexcept { return position_; }
    int root() const noexcept { return root_; }
    bool is_root() const noexcept { return position_ == root_; }
    int ordinal() const noexcept { return ordinal_; }
    /// Returns the position of a rank, or size() if it is no member.
    int position_of(int rank) const noexcept { return detail::position_of(rank, members()); }
    bool contains(int rank) const noexcept { return position_of(rank) < size(); }

    /// The next three functions accept any integer as a position, counted around the group.
    int wrapped(int position) const noexcept { return wrap(position, size()); }
    int rank(int position) const noexcept { return members()[at(wrapped(position))]; }
    range shard(int position) const noexcept { return shards()[at(wrapped(position))]; }
    /// Returns the shard of the member whose view this is.
    range own_shard() const noexcept { return shards()[at(position_)]; }
    /// Returns the shards of `n` <= size() successive positions: at most two ranges, of which the second begins at
    /// position 0.
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
