#pragma once

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// Errors of the C API: <terrace/terrace.h> includes this.

/// The result of a function: the error classes of <terrace/error.hpp>.
typedef enum terrace_status {
    terrace_ok = 0,
    terrace_input_error = 1,        ///< a file, or a value of an option, is invalid
    terrace_plan_error = 2,         ///< a plan does not fit, or differs between ranks
    terrace_usage_error = 3,        ///< a call is invalid, or differs between ranks
    terrace_timeout_error = 4,      ///< other ranks did not make the call in time; the communicator is broken
    terrace_transport_error = 5,    ///< a library below failed; the communicator is broken
    terrace_no_memory = 6,          ///< no memory; after a failed call the communicator is broken
    terrace_other_error = 7,        ///< any other error, for example an exception from a callback of the caller
    terrace_rank_failed_error = 8,  ///< ranks have died, are stopped or cannot be reached; the communicator is broken
    terrace_partitioned_error = 9   ///< terrace_shrink: another part of the job may go on, this one must not
} terrace_status;

/// Returns the message of the last call that failed on this thread: what happened, where, what to do. Empty if none has
/// failed. Valid until the next call that fails on this thread.
const char* terrace_last_error(void);

/// Where an error came from. Fields that do not apply are NULL or 0. Strings are valid as that of terrace_last_error().
typedef struct terrace_error_source {
    const char* file;     ///< file of a terrace_input_error
    int line, column;     ///< in the file, from 1
    const char* library;  ///< library of a terrace_transport_error: "mpi", "ucx", "nccl" ...
    const char* call;     ///< function of the library that failed
    int code;             ///< error code of that function
} terrace_error_source;

terrace_error_source terrace_last_error_source(void);  ///< returns the source of the last error on this thread

/// A rank that has failed.
typedef struct terrace_failed_rank {
    int rank;             ///< in the rank numbering of the communicator whose call failed
    const char* host;     ///< name of its host
    const char* noticed;  ///< evidence of the failure: "its process has ended"
} terrace_failed_rank;

/// Returns the failed ranks, ascending, if the last error was terrace_rank_failed_error; else NULL, and *count = 0.
/// Valid as the string of terrace_last_error().
const terrace_failed_rank* terrace_last_failed_ranks(int* count);

/// Returns "terrace_usage_error" for terrace_usage_error; NULL for other numbers.
const char* terrace_status_name(int status);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
