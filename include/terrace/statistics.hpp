#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace terrace {

/// What a rank has done on a communicator since it was created, and how long it waited for which rank:
/// communicator::statistics. Calls of host buffers that are complete count, and waits of more than 50 microseconds.
struct statistics {
    /// Calls of one name whose vectors, or all blocks together, have from bytes_from to less than twice as many bytes.
    struct calls_of_size {
        std::string_view call;  ///< "allreduce"
        std::int64_t bytes_from = 0;
        std::int64_t calls = 0;
        std::int64_t bytes = 0;  ///< of all these calls
        double seconds = 0;      ///< from their begin to their end on this rank
        double limit = 0;        ///< the least that the links of the plan allow for them [s]; 0: the plan says none
    };
    /// Time in which this rank was ready for a message, or for a stage in shared memory, and waited for a rank.
    struct wait {
        std::int64_t first_call = 0;  ///< of the slice of calls_per_slice calls in which it waited, from 1
        int size = 0;                 ///< index into `calls`
        int stage = 0;                ///< of the plan's rule
        int rank = 0;                 ///< who was waited for
        double seconds = 0;
    };

    std::int64_t calls_per_slice = 1;  ///< a power of two, which grows with the calls: few waits are kept of many
    std::vector<calls_of_size> calls;
    std::vector<wait> waits;
};

}  // namespace terrace
