#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "schedule/block_layout.hpp"

namespace terrace::detail {

/// Proves compositions with too many programs for a whole proof, in two parts.
/// * The groups of all stages and ranks fit together: no contribution is used twice or lost, the output of a stage is
///   the input of the next, and in the end the owners have the sums of all ranks.
/// * Every kind of group (algorithm, mode, size, nodes, root, which parts of shards are empty) does what its mode says.
///   Its programs are proved whole, once, with an element in each part that a generator cuts (algorithm::cuts).
/// The proof relies on the builder for the independence of a rank's stages: the builder orders all instructions that
/// overlap, and numbers steps alike on all ranks.
///
/// Several threads may use an object. One of them proves a kind of group, and only this thread returns its fault.
class group_proof {
public:
    /// Returns the first fault, or nothing.
    std::optional<std::string> find_fault(const composition& c);
    std::optional<std::string> find_fault(const block_layout& b) { return find_fault(b, false); }
    /// Proves an exchange: blocks for each rank replace the contributions.
    /// @param b made by compose_exchange
    std::optional<std::string> find_exchange_fault(const block_layout& b) { return find_fault(b, true); }

    /// Returns the number of kinds of groups that have been proved. Not while other threads use the object.
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
