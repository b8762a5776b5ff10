#pragma once

#include <vector>

#include "topology/network.hpp"

namespace terrace::detail {

/// `BlockSizes` of Slurm: nodes of a base block, then of blocks that are joined, in ascending order.
struct slurm_block_size {
    text_position where;
    int nodes;
};

/// Puts levels above Slurm's blocks, which are the switches of `n`: each size after the first joins as many
/// neighbouring blocks as it is a multiple of the base size, and the last level joins all. Blocks without nodes are
/// left out. @throws input_error if there is no block, or a size is no power of two times the base size
void join_blocks(switch_network& n, const std::vector<slurm_block_size>& sizes);

}  // namespace terrace::detail
