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
    std::uint32_t stages = 0;      ///< a bit per stage action, for providers that follow the buffers
    std::vector<int> domain = {};  ///< stages run among ranks with equal numbers, by rank; empty: among any
    std::size_t slot_bytes = 0;    ///< size of a lane slot, which must hold the vector of a stage; 0: any place
    int slots = 0;                 ///< lanes that may run a stage at once
    /// Groups, by position, that can run these stages. Stages in which each member has a shard also require equal
    /// shards. Null: any groups and shards.
    std::shared_ptr<const std::set<std::vector<int>>> groups = nullptr;
    std::uint32_t mpi_stages = 0;  ///< a bit per stage action, for provider mpi; the vector may lie anywhere
    std::shared_ptr<const std::set<std::vector<int>>> mpi_groups = nullptr;  ///< groups that can run these stages

    /// Returns true if the transport runs a stage of a group itself, for a provider that follows the buffers.
    bool runs(action a, const group& g) const;
    /// Returns true if the transport runs a stage instruction itself, for any provider.
    bool runs(const instr& stage, const group& g) const {
        if (stage.by != provider::mpi) return runs(stage.what, g);
        return (mpi_stages >> static_cast<unsigned>(stage.what) & 1u) != 0 &&
               g.whole().count() <= std::numeric_limits<int>::max() && mpi_groups->contains(g.members());
    }
};

/// Returns the generator that writes a stage as messages. These add in the order of the group, as the stage does, so
/// that sums have the same bits whether or not ranks share memory.
algorithm::generator expansion(action stage);
/// Expands the stages that the transport does not run itself into point-to-point instructions.
schedule lower(schedule s, const capabilities& can);

}  // namespace terrace::detail
