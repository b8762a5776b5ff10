#pragma once

#include <span>

#include "schedule/block_layout.hpp"
#include "schedule/collective_call.hpp"
#include "schedule/group_messages.hpp"

namespace terrace::detail {

/// Returns the first stage that cannot exchange blocks. Stages of an exchange have mode scatter or root (in gather and
/// scatter one mode for all) and an algorithm with an exchanger. They have neither shares nor route shares.
stage_fault fault_of_exchange(std::span<const stage> stages, collective what = collective::alltoall);

/// Returns the groups of an exchange. They divide a vector with one element for each rank, which represents all blocks
/// that go to this rank. After a stage, the owner of the element in a domain has the blocks of the domain's ranks
/// (docs/explanation/ownership.md, "Blocks from each rank to each rank"). The owners in the result are those after the
/// way down, which only stages of mode root have in alltoall.
/// @throws stage_error, plan_error as compose() does, and for a fault_of_exchange()
block_layout compose_exchange(const hierarchy& machine, std::span<const stage> stages,
                              collective what = collective::alltoall);

/// Returns the program of one rank.
/// @param b made by compose_exchange   @param shape stage_tree() of the same stages
schedule generate_exchange(const block_layout& b, const tree& shape, const collective_call& call, int rank);

// ---- counts for prices, from the same groups and without a list of blocks ----

/// One direction of a stage of an exchange.
struct exchange_stage {
    const algorithm& by;
    collective what;
    mode how;           ///< mode in the composition: always scatter in gather and scatter
    int level;          ///< level of the stage in `shape`
    const tree& shape;  ///< stage_tree() of all stages
    bool down;
    std::int64_t count;  ///< elements that the stages divide, equally many for each rank
    range of_root;       ///< elements that rank 0, the root of gather and scatter, owns in the end
};

/// Returns true if a stage moves data in this direction. In alltoall every stage does on the way up, and in mode root
/// also down; in gather and scatter it moves data in one direction. @param how mode of the rule's stage
bool exchange_goes(collective what, mode how, bool down) noexcept;

/// Returns the messages between members of a group, relative to a vector of one block for each rank; none for groups
/// that no block passes.
/// @param apart size up to which a group's members are counted one by one; those of larger groups count as alike
group_moves exchange_moves(const exchange_stage& s, const group& g, int apart);

/// Returns the number of vectors of blocks that the busiest rank copies in its own memory, each with one read and one
/// write, for exchanges, reduce_scatter and allgather.
double copied_vectors(const hierarchy& machine, std::span<const stage> stages, collective what);

}  // namespace terrace::detail
