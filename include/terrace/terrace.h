#pragma once

#include <stddef.h>
#include <stdint.h>

#include <terrace/terrace_error.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// The C API of Terrace, for C11 and for whatever calls C. What calls do is said in <terrace/communicator.hpp>, whose
// members have the same names.
//
// * Handles are opaque. Each has a function that destroys it, which accepts NULL.
// * Functions that can fail return a terrace_status, and write nothing to their results then. No exception leaves them.
// * Strings end with a zero byte. Those that are returned belong to the handle, or where none is passed to the library.
// * Result pointers may not be NULL unless that is said.

/// Returns "0.1.0".
const char* terrace_version(void);

// ---- types and operations

/// The type of an element: terrace_int8, terrace_float32, terrace_bfloat16 ... A row of element_types.def is one.
typedef enum terrace_element_type {
#define TERRACE_ELEMENT_TYPE(name, element, accumulator, mpi, nccl) terrace_##name,
#include <terrace/element_types.def>
} terrace_element_type;

/// An operation: terrace_sum, terrace_max, terrace_avg ... A row of reduce_ops.def is one.
typedef enum terrace_reduce_op {
#define TERRACE_REDUCE_OP(name, kinds, mpi, nccl) terrace_##name,
#include <terrace/reduce_ops.def>
} terrace_reduce_op;

/// What a reduction does. `(terrace_reduction){.op = terrace_sum}` is a sum.
typedef struct terrace_reduction {
    terrace_reduce_op op;
    double factor;  ///< of this rank's elements, for terrace_premul_sum alone
    int exact;      ///< other than 0: nothing is rounded on the wire
} terrace_reduction;

/// Returns "float32" for terrace_float32; NULL for other numbers. The types are numbered from 0 without gaps.
const char* terrace_element_type_name(int type);
/// Returns the bytes of an element; 0 for other numbers.
size_t terrace_size_of(int type);
/// Returns "sum" for terrace_sum; NULL for other numbers. The operations are numbered from 0 without gaps.
const char* terrace_reduce_op_name(int op);
/// Returns 1 if the type has the operation, else 0.
int terrace_is_defined(int op, int type);

// ---- options

typedef struct terrace_options terrace_options;

/// Makes the defaults of <terrace/options.hpp>.
terrace_status terrace_options_create(terrace_options** made);
/// Reads the TERRACE_* variables of the environment.
terrace_status terrace_options_from_environment(terrace_options** made);
/// Sets what a variable of docs/reference/environment.md sets, by its name in small letters without the prefix:
/// ("timeout", "30") is TERRACE_TIMEOUT=30. Besides there is ("threads", "any"): options::threads. @returns
/// terrace_usage_error for an unknown name, terrace_input_error for a value that is not allowed, with those that are
terrace_status terrace_options_set(terrace_options* options, const char* name, const char* value);
/// Sends lines to a function instead of standard error. `level`: 0 warning, 1 info, 2 debug. NULL: nowhere.
/// @param user is passed along, and must outlive all communicators made with the options
terrace_status terrace_options_set_log(terrace_options* options,
                                       void (*log)(void* user, int level, const char* line, size_t length), void* user);
void terrace_options_destroy(terrace_options* options);

// ---- plans

typedef struct terrace_plan terrace_plan;

/// Reads a plan file, which `terrace plan` makes.
terrace_status terrace_plan_load(const char* file, terrace_plan** made);
const char* terrace_plan_name(const terrace_plan* plan);
int terrace_plan_ranks(const terrace_plan* plan);
const char* terrace_plan_id(const terrace_plan* plan);
void terrace_plan_destroy(terrace_plan* plan);

// ---- communicators

// Creation is collective. `options` may be NULL for the defaults. `plan` may be NULL: the options name its file, or
// else one is made for the job. Both may be destroyed afterwards.

typedef struct terrace_communicator terrace_communicator;

/// Ranks that find one another as the options say (TERRACE_BOOTSTRAP: PMIx, or a directory), over UCX:
/// terrace::ucx::create.
terrace_status terrace_ucx_create(const terrace_options* options, const terrace_plan* plan,
                                  terrace_communicator** made);

/// Values by key, which all ranks of a job reach: terrace::store. The functions return a negative number if they fail.
/// They are called by the thread that creates a communicator or splits it. `user` must outlive the communicator and
/// its parts.
typedef struct terrace_store {
    int rank, size;
    void* user;
    /// Publishes a value; replaces that of the same key.
    int (*put)(void* user, const char* key, const void* value, size_t bytes);
    /// Returns 1 if the key has a value, 0 if not yet. `*value` must be valid until the next call.
    int (*get)(void* user, const char* key, const void** value, size_t* bytes);
    /// Removes a value. NULL: values stay.
    int (*remove)(void* user, const char* key);
} terrace_store;

/// Ranks that find one another in a store of the caller's, over UCX. The structure is copied.
terrace_status terrace_ucx_create_in_store(const terrace_store* store, const terrace_options* options,
                                           const terrace_plan* plan, terrace_communicator** made);

/// An MPI communicator, for a library that is linked to no MPI: <terrace/terrace_mpi.h> fills it in.
typedef struct terrace_mpi_world {
    const char* library;     ///< "openmpi" or "mpich"
    const void* comm;        ///< of the MPI_Comm
    const char* version;     ///< what MPI_Get_library_version says
    int (*processes)(void);  ///< in MPI_COMM_WORLD; 0: MPI does not run
    /// Returns whether all ranks of `comm` pass a number other than 0. Collective.
    int (*on_all)(const void* comm, int mine);
    void (*function)(void);  ///< the program's MPI_Comm_rank
} terrace_mpi_world;

enum {
    terrace_no_device = -2,      ///< buffers are the host's
    terrace_device_by_rank = -1  ///< the device with the rank's number on its node
};

/// All ranks of an MPI communicator: terrace::mpi::create, and with a device terrace::nccl::create.
terrace_status terrace_mpi_create_in(const terrace_mpi_world* world, int device, const terrace_options* options,
                                     const terrace_plan* plan, terrace_communicator** made);

/// Runs a plan in this process: calls `body` once per rank, each in a thread of its own, and returns when all have
/// returned. A body that returns other than 0 has failed; calls of the other ranks then fail too. The communicators are
/// destroyed by this function. @returns what the first rank that failed says, where it was a call of Terrace
terrace_status terrace_loopback_run(const terrace_plan* plan, const terrace_options* options,
                                    int (*body)(void* user, terrace_communicator* communicator), void* user);

int terrace_rank(const terrace_communicator* communicator);
int terrace_size(const terrace_communicator* communicator);
/// Makes a communicator of the ranks with the same color; NULL where the color is negative. Collective.
terrace_status terrace_split(terrace_communicator* communicator, int color, int key, terrace_communicator** part);
/// Makes a communicator of the ranks on this rank's machine node. Collective.
terrace_status terrace_split_by_node(terrace_communicator* communicator, int key, terrace_communicator** part);
/// Makes a communicator of the ranks that have not failed, after terrace_rank_failed_error. Collective over them.
terrace_status terrace_shrink(terrace_communicator* communicator, terrace_communicator** survivors);
/// Replaces the timeout of the options from now on, also for calls in flight: communicator::set_timeout. Local.
/// @param seconds 0: no limit
terrace_status terrace_set_timeout(terrace_communicator* communicator, double seconds);
/// Describes the stages of an allreduce of `bytes`. Frees nothing: the text belongs to the communicator, and is valid
/// until the next call of this function.
terrace_status terrace_shape(terrace_communicator* communicator, int64_t bytes, const char** text);
/// Predicts the time of an allreduce of `bytes` [s].
terrace_status terrace_predicted(terrace_communicator* communicator, int64_t bytes, double* seconds);
void terrace_communicator_destroy(terrace_communicator* communicator);

// ---- requests

/// A call that has been started. Must be destroyed.
typedef struct terrace_request terrace_request;

/// Sets `*complete` to 1 if the call is complete, else to 0. @returns the error of the call, once
terrace_status terrace_test(terrace_request* request, int* complete);
/// Returns once the call is complete. @returns the error of the call, once
terrace_status terrace_wait(terrace_request* request);
/// Calls `done` once when the call is complete, with its status; terrace_last_error() says there what a failure was.
/// The request is complete from here on, and may be destroyed. `done` is called by whichever thread moves the call
/// along, perhaps inside this function: terrace::request::then. It should not wait.
terrace_status terrace_then(terrace_request* request, void (*done)(void* user, terrace_status status), void* user);
/// Waits for the call, drops its error if nobody has got it, and frees the request.
void terrace_request_destroy(terrace_request* request);

// ---- collectives

// `request` NULL: the call returns when it is complete. Else it is started, and `*request` is a new request; buffers
// belong to the call until that is complete. Counts are elements: of the vector (allreduce, broadcast, reduce), of one
// block (the others). `counts` has the elements of each rank's block, the same on all ranks; it is read before the call
// returns. In place: send and recv are equal (allreduce, reduce), or the shorter one is the rank's block of the longer.

terrace_status terrace_allreduce(terrace_communicator* communicator, const void* send, void* recv, int64_t count,
                                 terrace_element_type type, terrace_reduction by, terrace_request** request);
terrace_status terrace_reduce_scatter(terrace_communicator* communicator, const void* send, void* recv, int64_t count,
                                      terrace_element_type type, terrace_reduction by, terrace_request** request);
terrace_status terrace_reduce_scatter_blocks(terrace_communicator* communicator, const void* send, void* recv,
                                             const int64_t* counts, terrace_element_type type, terrace_reduction by,
                                             terrace_request** request);
terrace_status terrace_allgather(terrace_communicator* communicator, const void* send, void* recv, int64_t count,
                                 terrace_element_type type, terrace_request** request);
terrace_status terrace_allgather_blocks(terrace_communicator* communicator, const void* send, void* recv,
                                        const int64_t* counts, terrace_element_type type, terrace_request** request);
terrace_status terrace_alltoall(terrace_communicator* communicator, const void* send, void* recv, int64_t count,
                                terrace_element_type type, terrace_request** request);
terrace_status terrace_gather(terrace_communicator* communicator, const void* send, void* recv, int64_t count,
                              terrace_element_type type, int root, terrace_request** request);
terrace_status terrace_gather_blocks(terrace_communicator* communicator, const void* send, void* recv,
                                     const int64_t* counts, terrace_element_type type, int root,
                                     terrace_request** request);
terrace_status terrace_scatter(terrace_communicator* communicator, const void* send, void* recv, int64_t count,
                               terrace_element_type type, int root, terrace_request** request);
terrace_status terrace_scatter_blocks(terrace_communicator* communicator, const void* send, void* recv,
                                      const int64_t* counts, terrace_element_type type, int root,
                                      terrace_request** request);
terrace_status terrace_broadcast(terrace_communicator* communicator, void* data, int64_t count,
                                 terrace_element_type type, int root, terrace_request** request);
terrace_status terrace_reduce(terrace_communicator* communicator, const void* send, void* recv, int64_t count,
                              terrace_element_type type, int root, terrace_reduction by, terrace_request** request);
terrace_status terrace_barrier(terrace_communicator* communicator, terrace_request** request);

// Blocks of any lengths, which each rank knows of its own alone. `capacity`: elements of recv. recv_counts, of size()
// numbers, are set. These return when they are complete.

/// @param most no block on any rank has more elements
terrace_status terrace_alltoallv(terrace_communicator* communicator, const void* send, const int64_t* send_counts,
                                 void* recv, int64_t capacity, int64_t* recv_counts, int64_t most,
                                 terrace_element_type type);
/// @param recv, recv_counts may be NULL where the rank is not `root`
terrace_status terrace_gatherv(terrace_communicator* communicator, const void* send, int64_t count, void* recv,
                               int64_t capacity, int64_t* recv_counts, terrace_element_type type, int root);
/// @param send, send_counts may be NULL where the rank is not `root`   @param count is set to the elements that came
terrace_status terrace_scatterv(terrace_communicator* communicator, const void* send, const int64_t* send_counts,
                                void* recv, int64_t capacity, terrace_element_type type, int root, int64_t* count);

/// Opens a group of calls, which begin together when it is closed.
terrace_status terrace_group_start(terrace_communicator* communicator);
terrace_status terrace_group_end(terrace_communicator* communicator);

// ---- messages

enum { terrace_any_source = -1 };

/// What a receive got.
typedef struct terrace_received {
    int source;     ///< the rank that sent the message
    int64_t count;  ///< elements
} terrace_received;

terrace_status terrace_send(terrace_communicator* communicator, const void* data, int64_t count,
                            terrace_element_type type, int to, int tag, terrace_request** request);
/// @param result is set when the call is complete, and must live until then; may be NULL
terrace_status terrace_recv(terrace_communicator* communicator, void* data, int64_t count, terrace_element_type type,
                            int from, int tag, terrace_received* result, terrace_request** request);

// ---- windows

/// Memory for buffers that calls need not copy inside a machine node: terrace::window.
typedef struct terrace_window terrace_window;

/// Allocates memory for `count` elements, zeroed. Collective. The window may outlive the communicator.
terrace_status terrace_allocate(terrace_communicator* communicator, size_t count, terrace_element_type type,
                                terrace_window** made);
/// Returns the address; NULL for a count of 0.
void* terrace_window_data(const terrace_window* window);
/// Frees the memory. Local. No call may be using it.
void terrace_window_destroy(terrace_window* window);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#include <terrace/terrace_device.h>
#include <terrace/terrace_gradients.h>
