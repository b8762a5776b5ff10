#pragma once

#include <vector>

#include "topology/network.hpp"

namespace terrace::detail {

/// One entry of Slurm's `BlockSizes`. The first is the size of base blocks; the others, ascending, of joined blocks.
struct slurm_block_size {
    text_position where;
    int nodes;
};

/// Adds levels above Slurm's blocks, which are the switches of `n`. Each size after the first makes a level that joins
/// size / base size neighbouring blocks; a last level joins all. Blocks without nodes are left out. @throws input_error
/// if no block has nodes, or if a size is not a larger power of two times the base size
void join_blocks(switch_network& n, const std::vector<slurm_block_size>& sizes);

}  // namespace terrace::detail
