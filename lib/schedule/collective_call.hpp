#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/range.hpp"
#include "plan/plan_data.hpp"

namespace terrace::detail {

/// A collective call, or one chunk of it, in a plan's numbering of ranks: all that its schedules depend on.
struct collective_call {
    collective what = collective::allreduce;
    std::int64_t count = 0;   ///< elements of the vector, or of each block
    int root = 0;             ///< of collectives with a root
    std::size_t element = 4;  ///< bytes of one
    /// Where the block of each rank lies in the caller's buffer of all blocks, for collectives with blocks. In alltoall
    /// block r of the send buffer goes to rank r, and block r of the receive buffer comes from it; all have one count.
    std::vector<range> blocks = {};
    /// The place of each rank in the tree by which a reproducible reduction adds elements (tree_stages.hpp). Empty:
    /// any order will do.
    std::vector<int> tree = {};
    bool rounds_on_wire = true;  ///< stages with a wire type round what they send; else nothing is rounded
    bool counts_given = false;   ///< the caller gave each block a count of its own, so that `count` is unused

    /// Returns the elements of the vector, or of all blocks together.
    std::int64_t elements() const noexcept;
    /// Returns a chunk of `elements` elements of the vector, or of each block.
    collective_call chunk(std::int64_t elements) const;
    /// Returns a chunk of a call with counts of its own that is cut into `chunks`: the first, to which all but the last
    /// are equal, or the last. Each has as much of a block as the others, and the last what is left over as well.
    ///
    ///     blocks of 7, 2 and 3 elements in 3 chunks     | 0 0 1 1 2 2 2 | 2 2 | 0 1 2 |
    collective_call chunk_of(std::int64_t chunks, bool last) const;
};

/// Returns blocks of the given counts, one after the other.
std::vector<range> side_by_side(std::span<const std::int64_t> counts);
/// Returns blocks of `count` elements each, one after the other.
std::vector<range> equal_blocks(int ranks, std::int64_t count);
/// Returns a call, from or to root 0, whose blocks, if it has any, have `count` elements each.
/// @param element bytes of one
collective_call equal_call(int ranks, collective what, std::int64_t count, std::size_t element);

}  // namespace terrace::detail
