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

/// An ordered set of ranks, numbered 0 ... size - 1, which exchange values through a bootstrap. All functions that are
/// not const are collective over the team: all its ranks call them in the same order. They throw transport_error.
class team {
public:
    /// The team of all ranks of the bootstrap, in its order.
    team(std::shared_ptr<bootstrap> by, int rank, int size);

    int rank() const noexcept { return rank_; }
    int size() const noexcept { return static_cast<int>(members_.size()); }
    /// Unique among all teams of the bootstrap: the prefix of its keys.
    const std::string& name() const noexcept { return name_; }
    /// The bootstrap's ranks, by rank of the team.
    const std::vector<int>& members() const noexcept { return members_; }
    /// Returns the number of a rank in the whole job, for messages.
    int world_rank(int rank) const noexcept;

    /// Returns every rank's text, by rank.
    std::vector<std::string> exchange(std::string_view own);
    /// Copies every rank's `bytes` bytes at `mine`, by rank, to `all`.
    void gather_all(const void* mine, void* all, std::size_t bytes);
    /// Returns rank 0's text.
    std::string broadcast(std::string_view text) { return exchange(rank_ == 0 ? text : std::string_view()).front(); }
    /// Returns the team of the ranks that give the same color, in the order of their keys and of their ranks where keys
    /// are equal; nothing where the color is negative.
    std::optional<team> split(int color, int key);
    /// Returns the team of some ranks, this one among them, in the order given. Not collective: all of them know the
    /// list and the name, which no other part of this team has.
    team part(std::span<const int> ranks, std::string_view name) const;
    /// Calls `look` while this team waits, and while copies and parts do that are made of it from now on, as long as it
    /// exists. Not collective.
    void while_waiting(std::weak_ptr<const wait_hook> look) { look_ = std::move(look); }
    /// Returns by rank the lowest rank on the same machine node. Ranks exchange something only the first time, and not
    /// if the team is part of one that has asked.
    std::vector<int> nodes();
    /// Returns how many ranks on this rank's machine node come before it. As nodes().
    int place_on_node();
    /// Returns memory_apart() of these ranks. As nodes().
    std::string memory_apart() { return detail::memory_apart(node_names()); }

private:
    /// @param ranks of `whole`, in this team's order
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
    std::vector<std::string> node_names_;  // by rank; empty until nodes() has asked
    std::uint64_t turn_ = 0;               // exchanges so far
};

/// "rank 3", "ranks 0-2, 5"; where the whole job has other numbers for them, "ranks 0-2 (ranks 4-6 of the world)".
/// @param ranks ascending   @param world_ranks by rank: its number in the whole job; empty: the same
std::string ranks_named(std::span<const int> ranks, std::span<const int> world_ranks = {});

/// Returns who has what, by rank, where not all have the same: "ranks 0-2, 5 have A; rank 4 has B", what most have
/// first. Empty where all have the same.
std::string differences(std::span<const std::string> all);

/// Compares a text between all ranks. Collective. @throws plan_error on every rank where they differ, naming who has
/// what; transport_error
void require_same(team& ranks, const std::string& own);

}  // namespace terrace::detail
