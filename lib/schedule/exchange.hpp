#pragma once

#include <span>

#include "schedule/block_layout.hpp"
#include "schedule/collective_call.hpp"
#include "schedule/group_messages.hpp"

namespace terrace::detail {

/// Returns the first stage that cannot exchange blocks. Stages of an exchange are in mode scatter or root, of gather
/// and scatter all in the same, and run an algorithm that has an exchanger, over messages; all blocks take them in one
/// order.
stage_fault fault_of_exchange(std::span<const stage> stages, collective what = collective::alltoall);

/// Returns the groups of an exchange. The vector that they divide has one element for each rank, which stands for all
/// blocks that go to this rank: after a stage the owner of the element in a domain has the blocks of the domain's ranks
/// (docs/explanation/ownership.md, "Blocks from each rank to each rank"). Owners are those after the way down, which
/// stages of alltoall in mode root go.
/// @throws stage_error, plan_error as compose() does, and for a fault_of_exchange()
block_layout compose_exchange(const hierarchy& machine, std::span<const stage> stages,
                              collective what = collective::alltoall);

/// Returns the program of one rank.
/// @param b made by compose_exchange   @param shape stage_tree() of the same
schedule generate_exchange(const block_layout& b, const tree& shape, const collective_call& call, int rank);

// ---- what prices count, from the same groups and without a list of blocks ----

/// One direction of a stage of an exchange, as its groups have it.
struct exchange_stage {
    const algorithm& by;
    collective what;
    mode how;           ///< of the stage; of gather and scatter, that in which their ranks meet: scatter
    int level;          ///< of `shape`, whose domains the stage joins
    const tree& shape;  ///< stage_tree() of all stages
    bool down;
    std::int64_t count;  ///< elements that the stages divide, as many for each rank
    range of_root;       ///< some that rank 0 has in the end, the root of gather and scatter
};

/// Returns true if a stage moves data in this direction: on the way up to owners and, where one rank gathers for a
/// domain, down again; of gather and scatter in one direction alone. @param how of the stage itself
bool exchange_goes(collective what, mode how, bool down) noexcept;

/// Returns what members of a group have for one another, in parts of a vector of one block for each rank; nothing in
/// groups that no block passes.
/// @param apart members of groups up to this size are told apart; of larger ones all are taken to do the same
group_moves exchange_moves(const exchange_stage& s, const group& g, int apart);

/// Returns how many vectors of blocks the busiest rank reads in copies that it makes by itself, and writes as many; of
/// reduce_scatter and allgather, too.
double copied_vectors(const hierarchy& machine, std::span<const stage> stages, collective what);

}  // namespace terrace::detail
