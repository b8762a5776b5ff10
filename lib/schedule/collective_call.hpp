#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/range.hpp"
#include "plan/plan_data.hpp"

namespace terrace::detail {

/// A collective call, or one chunk of it, in a plan's numbering of ranks: the input of its schedules.
struct collective_call {
    collective what = collective::allreduce;
    std::int64_t count = 0;   ///< elements of the vector, or of each block
    int root = 0;             ///< for collectives with a root
    std::size_t element = 4;  ///< bytes of an element
    /// The block of each rank in the caller's buffer of all blocks, for collectives with blocks. In alltoall block r of
    /// the send buffer goes to rank r, and block r of the receive buffer comes from rank r; all have one count.
    std::vector<range> blocks = {};
    /// The place of each rank in the tree by which a reproducible reduction adds elements (tree_stages.hpp). Empty: the
    /// order of additions is free.
    std::vector<int> tree = {};
    bool rounds_on_wire = true;  ///< stages with a wire type round the data that they send; else no data are rounded
    bool counts_given = false;   ///< the caller gave each block a count of its own, so `count` is unused

    /// Returns the elements of the vector, or of all blocks together.
    std::int64_t elements() const noexcept;
    /// Returns a chunk of `elements` elements of the vector, or of each block.
    collective_call chunk(std::int64_t elements) const;
    /// Returns a chunk of a call with counts_given that is cut into `chunks`: the first, as long as all but the last,
    /// or the last. All chunks have equally many elements of a block, and the last also the remainder.
    ///
    ///     blocks of 7, 2 and 3 elements in 3 chunks     | 0 0 1 1 2 2 2 | 2 2 | 0 1 2 |
    collective_call chunk_of(std::int64_t chunks, bool last) const;
};

/// Returns blocks of the given counts, one after the other.
std::vector<range> side_by_side(std::span<const std::int64_t> counts);
/// Returns blocks of `count` elements each, one after the other.
std::vector<range> equal_blocks(int ranks, std::int64_t count);
/// Returns a call with root 0. Its blocks, if it has any, have `count` elements each.
/// @param element bytes of an element
collective_call equal_call(int ranks, collective what, std::int64_t count, std::size_t element);

}  // namespace terrace::detail
