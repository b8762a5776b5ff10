#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace terrace {

/// Counts and times of a rank's calls on a communicator since its creation, and its waits for other ranks:
/// communicator::statistics. Only complete calls of host buffers count, and waits of more than 50 microseconds.
struct statistics {
    /// Calls of one function whose vectors, or all blocks together, have bytes_from to less than twice as many bytes.
    struct calls_of_size {
        std::string_view call;  ///< name of the function: "allreduce"
        std::int64_t bytes_from = 0;
        std::int64_t calls = 0;  ///< number of complete calls
        std::int64_t bytes = 0;  ///< total of these calls
        double seconds = 0;      ///< total time of these calls on this rank [s]
        double limit = 0;        ///< lower bound of this time by the links of the plan [s]; 0: unknown
    };
    /// A wait of this rank for another one, for a message or for a stage in shared memory.
    struct wait {
        std::int64_t first_call = 0;  ///< first call, from 1, of the slice of calls_per_slice calls that has the wait
        int size = 0;                 ///< index into `calls`
        int stage = 0;                ///< stage of the plan's rule, from 0
        int rank = 0;                 ///< the rank that this rank waited for
        double seconds = 0;           ///< [s]
    };

    std::int64_t calls_per_slice = 1;  ///< a power of two; doubled when there would be too many waits
    std::vector<calls_of_size> calls;
    std::vector<wait> waits;
};

}  // namespace terrace
