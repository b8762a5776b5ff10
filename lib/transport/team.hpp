#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/bootstrap.hpp"

namespace terrace::detail {

/// An ordered set of ranks, numbered 0 ... size - 1, which exchange values through a bootstrap. Functions that are not
/// const are collective: all ranks of the team call them in the same order. They throw transport_error, timeout_error.
class team {
public:
    /// Makes the team of all ranks of the bootstrap, in its order.
    team(std::shared_ptr<bootstrap> by, int rank, int size);

    int rank() const noexcept { return rank_; }
    int size() const noexcept { return static_cast<int>(members_.size()); }
    /// Returns the prefix of the team's keys, unique among all teams of the bootstrap.
    const std::string& name() const noexcept { return name_; }
    /// Returns the bootstrap's ranks, by rank of the team.
    const std::vector<int>& members() const noexcept { return members_; }
    /// Returns the number of a rank in the whole job, for messages.
    int world_rank(int rank) const noexcept;

    /// Returns every rank's text, by rank.
    std::vector<std::string> exchange(std::string_view own);
    /// Copies every rank's `bytes` bytes at `mine`, by rank, to `all`.
    void gather_all(const void* mine, void* all, std::size_t bytes);
    /// Returns rank 0's text.
    std::string broadcast(std::string_view text) { return exchange(rank_ == 0 ? text : std::string_view()).front(); }
    /// Returns the team of the ranks with the same color, in the order of their keys; equal keys are in the order of
    /// ranks. Returns nothing if the color is negative.
    std::optional<team> split(int color, int key);
    /// Returns the team of some ranks, including this one, in the given order. Not collective: each of these ranks
    /// passes the same list and name. No other part of this team has the name.
    team part(std::span<const int> ranks, std::string_view name) const;
    /// Sets a function that this team, and copies and parts made from now on, call while they wait, as long as the
    /// function exists. Not collective.
    void while_waiting(std::weak_ptr<const wait_hook> look) { look_ = std::move(look); }
    /// Returns the lowest rank on the same machine node, by rank. Only the first call exchanges names of nodes; none
    /// does if the team is a part of one that knows the names.
    std::vector<int> nodes();
    /// Returns the number of lower ranks on this rank's machine node. May exchange names, as nodes() does.
    int place_on_node();
    /// Returns memory_apart() of these ranks. May exchange names, as nodes() does.
    std::string memory_apart() { return detail::memory_apart(node_names()); }

private:
    /// @param ranks numbers in `whole`, in this team's order
    team(const team& whole, std::string name, std::span<const int> ranks);
    const std::vector<std::string>& node_names() {
        if (node_names_.empty()) node_names_ = exchange(by_->node());
        return node_names_;
    }

    std::shared_ptr<bootstrap> by_;
    std::string name_;
    std::vector<int> members_;
    int rank_;
    std::weak_ptr<const wait_hook> look_;
    std::vector<std::string> node_names_;  // by rank; empty until ranks have exchanged them
    std::uint64_t turn_ = 0;               // number of exchanges so far
};

/// Returns "rank 3" or "ranks 0-2, 5"; if their numbers in the whole job differ, "ranks 0-2 (ranks 4-6 of the world)".
/// @param ranks ascending   @param world_ranks numbers in the whole job, by rank; empty: the numbers are equal
std::string ranks_named(std::span<const int> ranks, std::span<const int> world_ranks = {});

/// Describes differences between the texts of ranks, the most frequent text first: "ranks 0-2, 5 have A; rank 4 has B".
/// Empty if all texts are equal.
std::string differences(std::span<const std::string> all);

/// Compares a text between all ranks. Collective. @throws plan_error with differences() on every rank if they differ;
/// transport_error
void require_same(team& ranks, const std::string& own);

}  // namespace terrace::detail
