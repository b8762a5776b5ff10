#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "schedule/registry.hpp"
#include "schedule/schedule.hpp"

namespace terrace::detail {

/// The stages that a transport can run by itself.
struct capabilities {
    std::uint32_t stages = 0;      ///< bit per stage action of providers that follow the buffers
    std::vector<int> domain = {};  ///< by rank: it runs them among ranks of equal numbers; empty: among any
    std::size_t slot_bytes = 0;    ///< of a lane's slot, in which the vector must lie for that; 0: it may lie anywhere
    int slots = 0;                 ///< lanes that may have a stage at once
    /// It runs them among exactly the ranks of one of these groups, by position, and where each has a shard only if
    /// these are equal. Null: whatever the groups and shards.
    std::shared_ptr<const std::set<std::vector<int>>> groups = nullptr;
    std::uint32_t mpi_stages = 0;  ///< bit per stage action of provider mpi, wherever the vector lies
    std::shared_ptr<const std::set<std::vector<int>>> mpi_groups = nullptr;  ///< it runs them among the ranks of one

    /// Returns true if it runs a stage by itself among the ranks of a group, for a provider that follows the buffers.
    bool runs(action a, const group& g) const;
    /// Returns true if it runs a stage instruction of any provider.
    bool runs(const instr& stage, const group& g) const {
        if (stage.by != provider::mpi) return runs(stage.what, g);
        return (mpi_stages >> static_cast<unsigned>(stage.what) & 1u) != 0 &&
               g.whole().count() <= std::numeric_limits<int>::max() && mpi_groups->contains(g.members());
    }
};

/// Returns what writes a stage as messages.
algorithm::generator expansion(action stage);
/// Expands the stages that the transport does not run itself into point-to-point instructions.
schedule lower(schedule s, const capabilities& can);

}  // namespace terrace::detail
