#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <terrace/communicator.hpp>

#include "plan/plan_data.hpp"

namespace terrace::detail::test {

/// Returns the operations that are defined for the type.
std::vector<reduce_op> ops_of(element_type type);

/// What the ranks pass in.
enum class contents {
    exact,  ///< every order of reductions gives the same bits, so that a serial oracle tells right from wrong
    rough,  ///< floats whose sums and products depend on the order: only equal bits on all ranks are asked for
};

/// One collective call, the same on every rank.
struct call {
    collective what = collective::allreduce;
    element_type type = element_type::float32;
    reduce_op op = reduce_op::sum;
    std::int64_t count = 0;            ///< elements of the vector, or of each block
    std::vector<std::int64_t> counts;  ///< of the blocks, by rank, where they are passed one by one; else empty
    int root = 0;
    bool in_place = false;
    int offset = 0;  ///< the buffers begin so many elements past a 64-byte boundary
    contents data = contents::exact;
    bool in_window = false;   ///< the buffers lie in windows of the communicator
    bool has_factors = true;  ///< premul_sum has the factor -1 on odd ranks; else 1 on all
    /// The caller compares the ranks' digests, so that of what all ranks get each checks a part.
    bool digests_are_compared = false;
    int nan_from = -1;  ///< this rank passes in NaN in every third element (floats and complex numbers)
};

/// "reduce_scatter of blocks [3,0,5], float16 max, in place"
std::string describe(const call& c);

/// What one rank saw of one call.
struct outcome {
    std::int64_t wrong = 0;    ///< elements that are not what the oracle says, inputs that changed, guards overwritten
    std::uint64_t digest = 0;  ///< of the bits of a result that all ranks get; else 0
};

/// Makes the call in memory of its own. Results are poisoned before, buffers have guard zones on both sides.
outcome make(communicator& comm, const call& c, std::uint64_t salt);

}  // namespace terrace::detail::test
