#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "schedule/block_layout.hpp"

namespace terrace::detail {

/// Proves compositions whose programs are too many to be proved whole, in two parts.
/// * The groups of all stages of all ranks fit together: every rank's contribution to every element is in what exactly
///   one member of each group brings, and what a stage leaves with its ranks is what the next one takes.
/// * Every kind of group (algorithm, mode, size, root, which shards are empty) does what its mode says: its programs
///   are proved whole, once, with shards of one element. A generator knows no other cuts than those of its shards, so
///   that their lengths do not matter.
/// That stages of one rank do not disturb one another rests on what the builder does with every program: it orders
/// whatever overlaps, and numbers steps alike on all ranks.
///
/// Several threads may use it at a time. A kind of group is then proved by one of them, which alone returns its fault.
class group_proof {
public:
    /// Nothing if all holds, else what does not.
    std::optional<std::string> find_fault(const composition& c);
    std::optional<std::string> find_fault(const block_layout& b) { return find_fault(b, false); }
    /// Proves an exchange: what is said above of contributions holds of the blocks for each rank.
    /// @param b made by compose_exchange
    std::optional<std::string> find_exchange_fault(const block_layout& b) { return find_fault(b, true); }

    /// Returns how many kinds of groups have been proved. Not while other threads use it.
    std::size_t kinds() const noexcept { return proved_.size(); }

private:
    std::optional<std::string> find_fault(const block_layout& b, bool exchanges);
    std::optional<std::string> check_blocks(const block_layout& b) const;
    std::optional<std::string> prove_groups(const composition& c, bool exchanges);
    std::optional<std::string> prove_groups(const composed_stage& s, std::span<const group> groups, bool exchanges);

    std::mutex mutex_;
    std::set<std::string> proved_;  // kinds of groups
};

}  // namespace terrace::detail
