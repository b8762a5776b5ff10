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

/// A vector made of one block per rank, such that the composition's owner of block r is rank r.
struct block_layout {
    composition c;
    /// Parts of the vector by rank. Several routes follow one another, each with a part of every block.
    std::vector<range> blocks;

    /// In gather and scatter one rank of each domain carries all that its ranks have for the root, or get from it.
    bool through_one = false;

    /// Returns the parts of the vector that a rank's block consists of, in its order.
    std::vector<range> block_of(int rank) const {
        std::vector<range> parts;
        for (std::size_t i = at(rank); i < blocks.size(); i += at(c.ranks)) parts.push_back(blocks[i]);
        return parts;
    }
    /// Returns what a rank has between the way up and the way down: where a stage has mode root, all blocks that pass
    /// through the rank, or none.
    std::vector<range> held_by(int rank) const;
};

/// Composes stages over blocks of the given counts, by rank: the groups of compose(). Blocks stand in the order in
/// which stages divide a vector, so that what a stage moves is consecutive. Stages of mode root, the innermost ones,
/// leave the blocks of a domain with one rank, which hands them on after the way up, or has been given them before the
/// way down.
/// @throws stage_error as compose() does, and for a fault_of_blocks()
block_layout compose_blocks(const hierarchy& machine, std::span<const stage> stages,
                            std::span<const std::int64_t> counts, std::span<const int> tree = {});

/// Returns the groups of all ranks for equal blocks that 2 to 16 divide, of stages that need no algorithms.
block_layout compose_block_groups(const hierarchy& machine, std::span<const stage> stages);

/// Returns the ranks of the domain of a level that a rank is in; of level -1, itself.
range ranks_around(const tree& shape, int level, int rank);

/// Returns a group of a stage in mode root with what its root hands on to each member, or is given by it: shards of an
/// element for each rank of the domain that the member stands for. As composed_stage::forwarding, of equal blocks.
/// @param shape has a level for each stage   @param level that of the stage
group forwarding_of(const group& g, const tree& shape, int level);

/// A stage that does not fit its collective, and why; nothing if all fit.
using stage_fault = std::optional<std::pair<int, std::string>>;
/// @throws stage_error if there is one
void expect_none(const stage_fault& fault);

/// Returns the first stage that cannot be one of reduce_scatter or allgather: stages have mode scatter, the innermost
/// ones may have root, and then none has a route_share.
stage_fault fault_of_blocks(std::span<const stage> stages);

/// Hands down, from the outermost stage of mode root to the innermost, what the root of each group owns after the way
/// up: equal parts to all members. Then puts blocks of the given counts, by rank, in the order of the parts that ranks
/// own of a vector so fine that each owns some. The groups are then those of the blocks.
/// @param fine of all ranks, without routes or with those of `stages`
block_layout in_blocks(composition fine, const hierarchy& machine, std::span<const stage> stages,
                       std::span<const std::int64_t> counts);
/// Elements of such a vector.
inline std::int64_t fine_count(const hierarchy& machine) { return std::int64_t{machine.ranks()} << 20; }

/// The program of one rank for reduce_scatter or allgather. In the caller's buffer of all blocks, block r begins at
/// element `begins[r]`; the other buffer holds the rank's own block alone.
schedule generate(const block_layout& b, collective what, int rank, std::span<const std::int64_t> begins);

}  // namespace terrace::detail
