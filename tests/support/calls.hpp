#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <terrace/communicator.hpp>

#include "plan/plan_data.hpp"

namespace terrace::detail::test {

/// Returns the operations that are defined for the type.
std::vector<reduce_op> ops_of(element_type type);

/// Inputs of the ranks.
enum class contents {
    exact,  ///< every order of reductions gives the same bits, so results must equal the serial oracle's
    rough,  ///< floats whose sums and products depend on the order: results need only be equal on all ranks
};

/// One collective call, the same on every rank.
struct call {
    collective what = collective::allreduce;
    element_type type = element_type::float32;
    reduce_op op = reduce_op::sum;
    std::int64_t count = 0;            ///< elements of the vector, or of each block
    std::vector<std::int64_t> counts;  ///< lengths of the blocks by rank, if the caller passes them; else empty
    int root = 0;
    bool in_place = false;
    int offset = 0;  ///< elements between a 64-byte boundary and the buffer's begin
    contents data = contents::exact;
    bool in_window = false;   ///< the buffers lie in windows of the communicator
    bool has_factors = true;  ///< premul_sum has the factor -1 on odd ranks; else 1 on all
    /// The caller compares the ranks' digests, so each rank checks only a part of a result that all ranks get.
    bool digests_are_compared = false;
    int nan_from = -1;  ///< this rank passes in NaN in every third element (floats and complex numbers)
};

/// Returns a text as "reduce_scatter of blocks [3,0,5], float16 max, in place".
std::string describe(const call& c);

/// Outcome of a call on one rank.
struct outcome {
    std::int64_t wrong = 0;    ///< number of wrong elements, changed inputs and overwritten guard bytes
    std::uint64_t digest = 0;  ///< hash of the bits of a result that all ranks get; else 0
};

/// Makes the call in its own buffers, whose results are poisoned before, with guard zones on both sides.
outcome make(communicator& comm, const call& c, std::uint64_t salt);

}  // namespace terrace::detail::test
