#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan_data.hpp"
#include "schedule/lower.hpp"
#include "schedule/ownership.hpp"
#include "schedule/registry.hpp"

namespace terrace::detail {

/// All groups of one stage. Each consists of the owners, one per sibling domain, of one segment of the vector. Groups
/// with no ranks in common run side by side.
struct composed_stage {
    mode how = mode::scatter;
    const algorithm* by = nullptr;
    int steps_up = 0, steps_down = 0;  ///< of the largest group
    int steps_at_root = 0;             ///< of scatter and gather, in mode scatter
    int largest = 0;                   ///< members of that; 0 where nobody meets
    bool meets_root = false;           ///< the root of the call has others to meet
    std::vector<group> groups;         ///< in an order that all ranks agree on
    /// Of blocks in mode root, the same groups with the blocks that the root has for each member and what is behind it.
    std::vector<group> handing = {};
    int first_rank = 0;  ///< of of_rank
    std::vector<std::vector<int>> of_rank;
    std::vector<int> domains = {};  ///< of a reproducible reduction, by rank: the child of the level that it is in
    wire_type wire = wire_type::exact;
    int number = 0;  ///< among the plan's stages
    int route = 0;   ///< which of the composition's it is on, from 1; 0: on all

    /// Returns the groups that a rank is a member of, ascending.
    const std::vector<int>& groups_of(int rank) const { return of_rank[static_cast<std::size_t>(rank - first_rank)]; }
};

/// The groups of ranks for each part of the vector, by stage: the stages of a plan rule, laid out for one count. The
/// same for all ranks.
struct composition {
    int ranks = 1;
    int root = -1;  ///< of the call; -1: it has none
    std::int64_t count = 0;
    std::vector<composed_stage> stages;
    std::vector<owned> owners;  ///< after the last stage, ascending; all ranks' cover the vector
    /// Where parts of the vector go through stages in different orders: of each order, the ranks as its first stage
    /// takes them together, then its next. No two routes have a part of the vector in common. Else empty.
    std::vector<std::vector<int>> routes;
    std::vector<int> tree = {};  ///< as in collective_call
};

/// Composes stages over a machine by ownership and common refinement: after a domain's stage each element has an owner
/// in it; the vector is cut wherever an owner changes in any sibling, and each segment's owners, one per sibling, form
/// a group of the next stage. Shards are cut at multiples of `quantum` elements. What a domain that has the
/// `root` does is done by or for the sibling that has it: in mode root its owners get everything, in mode scatter they
/// scatter to, or gather from, the other siblings' owners. Elsewhere (and for root -1) successive segments take
/// successive siblings in mode root.
/// @throws stage_error if a stage's algorithm is unknown or does not do its mode, or replicate stands below unequal
/// siblings. Where dimensions of a torus take turns at coming first (stage::route_share), what each rank owns after the
/// stages inside nodes is cut in so many parts, and each composed by itself over the machine with its dimensions in
/// that order.
composition compose(const hierarchy& machine, std::span<const stage> stages, std::int64_t count, std::int64_t quantum,
                    int root = -1, std::span<const int> tree = {});

/// Returns a rank's part: the same stages and steps, the groups that the rank is a member of, and the parts that
/// it owns. Costs far less: the time of the rank's own groups, and of one domain of each kind.
composition compose_for(int rank, const hierarchy& machine, std::span<const stage> stages, std::int64_t count,
                        std::int64_t quantum, int root = -1, std::span<const int> tree = {});

/// Makes sure that all rules of a plan can be composed. @throws input_error at the stage's place in the file that the
/// plan_data was read from, plan_error if it was made in memory
void check_runnable(const plan_data& r);

/// A vector made of one block per rank, such that the composition's owner of block r is rank r.
struct block_layout {
    composition c;
    std::vector<range>
        blocks;  ///< of the vector, by rank; of several routes one after the other, each with a part of every block

    /// Of gather and scatter: one rank of each domain carries all that its ranks have for the root, or get from it.
    bool through_one = false;

    /// Returns the parts of the vector that a rank's block consists of, in its order.
    std::vector<range> block_of(int rank) const;
    /// Returns what a rank has between the way up and the way down: where a stage has mode root, all blocks that pass
    /// through the rank, or none.
    std::vector<range> held_by(int rank) const;
};

/// The same groups over blocks of the given counts, by rank. Blocks stand in the order in which stages divide a vector,
/// so that what a stage moves is consecutive. Stages of mode root, the innermost ones, leave the blocks of a domain
/// with one rank, which hands them on after the way up, or has been given them before the way down.
/// @throws stage_error as above, and as check_blocks does
block_layout compose_blocks(const hierarchy& machine, std::span<const stage> stages,
                            std::span<const std::int64_t> counts, std::span<const int> tree = {});

/// Returns the first stage that cannot be one of reduce_scatter or allgather, and why: stages have mode scatter, the
/// innermost ones may have root, and then none has a route_share.
std::optional<std::pair<int, std::string>> fault_of_blocks(std::span<const stage> stages);
/// @throws stage_error if there is one
void check_blocks(std::span<const stage> stages);

/// Hands down, from the outermost stage of mode root to the innermost, what the root of each group owns after the way
/// up: equal parts to all members.
void hand_down(composition& c);

/// Puts blocks of the given counts, by rank, in the order of the parts that ranks own of a vector so fine that each
/// owns some. The groups are then those of the blocks.
/// @param c of all ranks, without routes or with those of `stages`
block_layout in_blocks(composition c, const hierarchy& machine, std::span<const stage> stages,
                       std::span<const std::int64_t> counts);
/// Elements of such a vector.
inline std::int64_t fine_count(const hierarchy& machine) { return std::int64_t{machine.ranks()} << 20; }

/// Whether the rank takes part in a stage that its transport runs by itself.
bool runs_stages(const composition& c, int rank, const capabilities& can);

/// The program of one rank, which `c` is composed for, of an allreduce; of broadcast and reduce (stages in modes
/// scatter and root), from and to the root that `c` is composed for. Collectives of providers are not lowered yet.
/// @param can what the transport runs by itself: up and down of an outermost stage are then one allreduce
/// @param home of the vector: recv, or scratch where peers look for it there
schedule generate(const composition& c, collective what, int rank, const capabilities& can = {},
                  buffer home = buffer::recv);

/// The program of one rank for reduce_scatter or allgather. In the caller's buffer of all blocks, block r begins at
/// element `begins[r]`; the other buffer holds the rank's own block alone.
schedule generate(const block_layout& b, collective what, int rank, std::span<const std::int64_t> begins);

/// Programs of all ranks.
std::vector<schedule> generate_all(const composition& c, collective what);

}  // namespace terrace::detail
