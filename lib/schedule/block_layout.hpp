#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "schedule/compose.hpp"

namespace terrace::detail {

/// A vector made of one block per rank. In the composition, rank r is the owner of block r.
struct block_layout {
    composition c;
    /// The blocks in the vector: a part of each block for each route, ordered by route, then by rank.
    std::vector<range> blocks;

    /// True for gather and scatter in mode root: one rank per domain passes on the blocks of its ranks.
    bool through_one = false;

    /// Returns the parts of the vector that make up a rank's block, in the order of the block.
    std::vector<range> block_of(int rank) const {
        std::vector<range> parts;
        for (std::size_t i = at(rank); i < blocks.size(); i += at(c.ranks)) parts.push_back(blocks[i]);
        return parts;
    }
    /// Returns the parts of the vector that a rank has between the way up and the way down. If a stage has mode root,
    /// these are all blocks that pass through the rank, or none.
    std::vector<range> held_by(int rank) const;
};

/// Composes stages over blocks of the given counts, by rank: the groups of compose(). Blocks lie in the order in which
/// stages divide a vector, so the data that a stage moves are contiguous. Stages of mode root, the innermost ones,
/// leave the blocks of a domain with one rank. This rank scatters them after the way up, or has gathered them before
/// the way down.
/// @throws stage_error as compose() does, and for a fault_of_blocks()
block_layout compose_blocks(const hierarchy& machine, std::span<const stage> stages,
                            std::span<const std::int64_t> counts, std::span<const int> tree = {});

/// Returns the groups of all ranks for equal blocks of a count that 2 to 16 divide. Stages need no algorithms.
block_layout compose_block_groups(const hierarchy& machine, std::span<const stage> stages);

/// Returns the ranks of the domain at a level that contains a rank; at level -1, the rank alone.
range ranks_around(const tree& shape, int level, int rank);

/// Returns a group of a stage in mode root whose shards are the data between its root and each member: an element for
/// each rank of the member's child domain. It is composed_stage::forwarding for equal blocks.
/// @param shape has a level for each stage   @param level number of the stage
group forwarding_of(const group& g, const tree& shape, int level);

/// The number of the first stage that does not fit its collective, and the reason; nothing if all fit.
using stage_fault = std::optional<std::pair<int, std::string>>;
/// @throws stage_error if there is a fault
void expect_none(const stage_fault& fault);

/// Returns the first stage that cannot run in reduce_scatter or allgather. Stages must have mode scatter. The innermost
/// ones may have mode root if no stage has a route_share.
stage_fault fault_of_blocks(std::span<const stage> stages);

/// Divides the largest part that each group's root owns after the way up equally among all members, from the outermost
/// stage of mode root inwards. Then lays out blocks of the given counts, by rank, in the order of the parts that ranks
/// own. The result has the groups of these blocks.
/// @param fine composition of all ranks, over fine_count() elements, without routes or with those of `stages`
block_layout in_blocks(composition fine, const hierarchy& machine, std::span<const stage> stages,
                       std::span<const std::int64_t> counts);
/// Returns a number of elements of which each rank owns some.
inline std::int64_t fine_count(const hierarchy& machine) { return std::int64_t{machine.ranks()} << 20; }

/// Returns the program of one rank for reduce_scatter or allgather. In the caller's buffer of all blocks, block r
/// begins at element `begins[r]`. The other buffer holds only the rank's own block.
schedule generate(const block_layout& b, collective what, int rank, std::span<const std::int64_t> begins);

}  // namespace terrace::detail
