#pragma once

#include <stddef.h>
#include <stdint.h>

#include <terrace/terrace_error.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// The C API of Terrace, for C11 and for languages that can call C. <terrace/communicator.hpp> documents the calls; its
// members have the same names without `terrace_`.
//
// * Handles are opaque. Each has a function that destroys it, which accepts NULL.
// * Functions that can fail return a terrace_status, and write nothing to their results on failure. They throw no
//   exception.
// * Strings end with a zero byte. A returned string belongs to the handle that was passed; without a handle, to the
//   library.
// * Result pointers may be NULL only if a comment says so.

/// Returns the version, such as "0.1.0".
const char* terrace_version(void);

// ---- types and operations

/// The type of an element: terrace_int8, terrace_float32, terrace_bfloat16 and so on, one for each row of
/// element_types.def.
typedef enum terrace_element_type {
#define TERRACE_ELEMENT_TYPE(name, element, accumulator, mpi, nccl) terrace_##name,
#include <terrace/element_types.def>
} terrace_element_type;

/// An operation: terrace_sum, terrace_max, terrace_avg and so on, one for each row of reduce_ops.def.
typedef enum terrace_reduce_op {
#define TERRACE_REDUCE_OP(name, kinds, mpi, nccl) terrace_##name,
#include <terrace/reduce_ops.def>
} terrace_reduce_op;

/// A reduction: `(terrace_reduction){.op = terrace_sum}` is a sum.
typedef struct terrace_reduction {
    terrace_reduce_op op;
    double factor;  ///< factor of this rank's elements; used only by terrace_premul_sum
    int exact;      ///< not 0: nothing is rounded on the wire
} terrace_reduction;

/// Returns "float32" for terrace_float32; NULL for a number that is no type. Types are numbered from 0 without gaps.
const char* terrace_element_type_name(int type);
/// Returns the bytes of an element; 0 for a number that is no type.
size_t terrace_size_of(int type);
/// Returns "sum" for terrace_sum; NULL for a number that is no operation. Operations are numbered from 0 without gaps.
const char* terrace_reduce_op_name(int op);
/// Returns 1 if the operation is defined for the type, else 0.
int terrace_is_defined(int op, int type);

// ---- options

typedef struct terrace_options terrace_options;

/// Makes options with the defaults of <terrace/options.hpp>.
terrace_status terrace_options_create(terrace_options** made);
/// Makes options from the TERRACE_* variables of the environment.
terrace_status terrace_options_from_environment(terrace_options** made);
/// Sets one option, by the name of its variable in docs/reference/environment.md, in lower case without the prefix:
/// ("timeout", "30") is TERRACE_TIMEOUT=30. Two more are ("threads", "any") and ("world_ranks", "4,5"):
/// options::threads, options::world_ranks.
/// @returns terrace_usage_error for an unknown name; terrace_input_error for a value that is not allowed, with a
/// message that lists the allowed ones
terrace_status terrace_options_set(terrace_options* options, const char* name, const char* value);
/// Sets the function that receives log lines; NULL: no log. `level`: 0 warning, 1 info, 2 debug.
/// @param user passed to each call of `log`; must outlive all communicators made with the options
terrace_status terrace_options_set_log(terrace_options* options,
                                       void (*log)(void* user, int level, const char* line, size_t length), void* user);
void terrace_options_destroy(terrace_options* options);

// ---- plans

typedef struct terrace_plan terrace_plan;

/// Reads a plan file, as `terrace plan` writes it.
terrace_status terrace_plan_load(const char* file, terrace_plan** made);
/// Returns the name of the machine that the plan is for.
const char* terrace_plan_name(const terrace_plan* plan);
int terrace_plan_ranks(const terrace_plan* plan);  ///< returns the number of ranks of the plan
/// Returns the plan's id: plan::id().
const char* terrace_plan_id(const terrace_plan* plan);
void terrace_plan_destroy(terrace_plan* plan);

// ---- communicators

// Creation is collective. `options` may be NULL for the defaults. `plan` may be NULL: the plan is then read from the
// file that the options name, or else made for the job. Both may be destroyed afterwards.

typedef struct terrace_communicator terrace_communicator;

/// Makes a communicator over UCX of all ranks of a job, which find one another by PMIx or in a directory
/// (TERRACE_BOOTSTRAP): terrace::ucx::create.
terrace_status terrace_ucx_create(const terrace_options* options, const terrace_plan* plan,
                                  terrace_communicator** made);

/// A key-value store that all ranks of a job reach: terrace::store. The functions return a negative number if they
/// fail. They are called by the thread that creates a communicator or splits it. `user` must outlive the communicator
/// and its parts.
typedef struct terrace_store {
    int rank, size;
    void* user;
    /// Sets the value of a key; replaces an earlier one.
    int (*put)(void* user, const char* key, const void* value, size_t bytes);
    /// Returns 1 if the key has a value, 0 if not yet. `*value` must be valid until the next call.
    int (*get)(void* user, const char* key, const void** value, size_t* bytes);
    /// Removes a key. NULL: keys stay.
    int (*remove)(void* user, const char* key);
} terrace_store;

/// Makes a communicator over UCX of ranks that find one another in a store of the caller. The structure is copied.
terrace_status terrace_ucx_create_in_store(const terrace_store* store, const terrace_options* options,
                                           const terrace_plan* plan, terrace_communicator** made);

/// An MPI communicator, as passed to the library, which is not linked to any MPI: <terrace/terrace_mpi.h> fills it in.
typedef struct terrace_mpi_world {
    const char* library;     ///< "openmpi", "mpich" or "mpiabi"
    const void* comm;        ///< address of the MPI_Comm
    const char* version;     ///< the text of MPI_Get_library_version
    int (*processes)(void);  ///< returns the size of MPI_COMM_WORLD; 0: MPI does not run
    /// Returns a number other than 0 if all ranks of `comm` pass one. Collective.
    int (*on_all)(const void* comm, int mine);
    void (*function)(void);  ///< the program's MPI_Comm_rank
} terrace_mpi_world;

enum {
    terrace_no_device = -2,      ///< host buffers only
    terrace_device_by_rank = -1  ///< the device with the rank's number on its node
};

/// Makes a communicator of all ranks of an MPI communicator: terrace::mpi::create, with a device terrace::nccl::create.
terrace_status terrace_mpi_create_in(const terrace_mpi_world* world, int device, const terrace_options* options,
                                     const terrace_plan* plan, terrace_communicator** made);

/// Runs the ranks of a plan in this process: calls `body` once per rank, each in a thread of its own, and returns when
/// all have returned. If a body returns another number than 0, calls of the other ranks fail too. This function
/// destroys the communicators. @returns the error of the first rank that failed; terrace_other_error if no call failed
terrace_status terrace_loopback_run(const terrace_plan* plan, const terrace_options* options,
                                    int (*body)(void* user, terrace_communicator* communicator), void* user);

int terrace_rank(const terrace_communicator* communicator);  ///< returns the rank of this process
int terrace_size(const terrace_communicator* communicator);  ///< returns the number of ranks
/// Makes a communicator of the ranks with the same color, ordered by their keys; NULL on ranks with a negative color.
/// Collective.
terrace_status terrace_split(terrace_communicator* communicator, int color, int key, terrace_communicator** part);
/// Makes a communicator of the ranks on this rank's machine node. Collective.
terrace_status terrace_split_by_node(terrace_communicator* communicator, int key, terrace_communicator** part);
/// Makes a communicator of the ranks that have not failed, after terrace_rank_failed_error. Collective over them.
terrace_status terrace_shrink(terrace_communicator* communicator, terrace_communicator** survivors);
/// Replaces the timeout of the options from now on, also for calls in flight: communicator::set_timeout. Local.
/// @param seconds 0: no limit
terrace_status terrace_set_timeout(terrace_communicator* communicator, double seconds);
/// Ends all calls of this rank without waiting for other ranks: communicator::abort. Local, from any thread.
terrace_status terrace_abort(terrace_communicator* communicator);
/// Describes the stages of an allreduce of `bytes`. The text belongs to the communicator, and is valid until the next
/// call of this function.
terrace_status terrace_shape(terrace_communicator* communicator, int64_t bytes, const char** text);
/// Describes the calls of this rank so far, and its waits for other ranks: communicator::statistics, as JSON
/// (docs/guides/slow-ranks.md). The text belongs to the communicator, and is valid until the next call of this
/// function.
terrace_status terrace_statistics(terrace_communicator* communicator, const char** text);
/// Predicts the time of an allreduce of `bytes` [s].
terrace_status terrace_predicted(terrace_communicator* communicator, int64_t bytes, double* seconds);
void terrace_communicator_destroy(terrace_communicator* communicator);

// ---- requests

/// A started call. Must be destroyed, also when it is complete.
typedef struct terrace_request terrace_request;

/// Sets `*complete` to 1 if the call is complete, else to 0. @returns the error of the call, once
terrace_status terrace_test(terrace_request* request, int* complete);
/// Returns once the call is complete. @returns the error of the call, once
terrace_status terrace_wait(terrace_request* request);
/// Calls `done` once when the call is complete, with its status; inside `done`, terrace_last_error() describes a
/// failure. The request itself is complete when this returns, and may be destroyed. Any thread that makes progress may
/// call `done`, also inside this function: terrace::request::then. `done` should not wait.
terrace_status terrace_then(terrace_request* request, void (*done)(void* user, terrace_status status), void* user);
/// Waits for the call, discards its error unless it has been returned, and frees the request.
void terrace_request_destroy(terrace_request* request);

// ---- collectives

// * If `request` is NULL, a call returns when it is complete. Otherwise the call is started, and `*request` is set to a
//   new request; the buffers belong to the call until the request is complete.
// * `count` is a number of elements: of the vector for allreduce, broadcast and reduce, of one block for the others.
// * `counts` has the elements of each rank's block, the same on all ranks. It is read before the call returns.
// * In place: send and recv are equal (allreduce, reduce), or the shorter one is the rank's block of the longer one.

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

// Blocks of any lengths; each rank knows only the lengths of its own blocks. `capacity` is the number of elements that
// recv holds. recv_counts has an element for each rank, and is set. These calls return when they are complete.

/// @param most an upper bound of the elements of any block on any rank, the same on all ranks
terrace_status terrace_alltoallv(terrace_communicator* communicator, const void* send, const int64_t* send_counts,
                                 void* recv, int64_t capacity, int64_t* recv_counts, int64_t most,
                                 terrace_element_type type);
/// @param recv, recv_counts may be NULL on ranks other than `root`
terrace_status terrace_gatherv(terrace_communicator* communicator, const void* send, int64_t count, void* recv,
                               int64_t capacity, int64_t* recv_counts, terrace_element_type type, int root);
/// @param send, send_counts may be NULL on ranks other than `root`   @param count is set to the elements received
terrace_status terrace_scatterv(terrace_communicator* communicator, const void* send, const int64_t* send_counts,
                                void* recv, int64_t capacity, terrace_element_type type, int root, int64_t* count);

/// Opens a group of calls, which start together when terrace_group_end closes it.
terrace_status terrace_group_start(terrace_communicator* communicator);
terrace_status terrace_group_end(terrace_communicator* communicator);

// ---- messages

enum { terrace_any_source = -1 };

/// The result of a receive.
typedef struct terrace_received {
    int source;     ///< the rank that sent the message
    int64_t count;  ///< elements of the message
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
/// Frees the memory. No call may be using it. Local.
void terrace_window_destroy(terrace_window* window);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#include <terrace/terrace_device.h>
#include <terrace/terrace_gradients.h>
