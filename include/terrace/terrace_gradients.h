#pragma once

#include <terrace/terrace.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// Gradients, from C; <terrace/terrace.h> includes this. <terrace/gradients.hpp> documents the calls; the members of
// gradient_reducer have the same names. Parameters are identified by their index in the list that is passed to
// terrace_gradients_create.

/// A parameter whose gradient is reduced. Name, count, type and row are the same on every rank.
typedef struct terrace_gradient_parameter {
    const char* name;           ///< for error messages; read before the call returns
    int64_t count;              ///< elements; may be 0
    terrace_element_type type;  ///< a floating-point type
    void* gradient;             ///< the caller's gradient of `count` elements; NULL: it lies in its bucket
    int64_t row;                ///< above 0: sparse, with rows of this many elements; `gradient` must be NULL
} terrace_gradient_parameter;

/// Memory that terrace_gradients_broadcast sends.
typedef struct terrace_state_tensor {
    const char* name;
    void* data;
    int64_t count;
    terrace_element_type type;
} terrace_state_tensor;

/// The meaning of a gradient that is missing when an iteration ends: terrace::unused_parameters.
typedef enum terrace_unused_parameters {
    terrace_unused_error = 0,
    terrace_unused_find = 1,
    terrace_unused_fixed = 2
} terrace_unused_parameters;

enum { terrace_automatic_buckets = -1 };  ///< for bucket_bytes

/// The settings of a reducer: terrace::gradient_options.
typedef struct terrace_gradient_options {
    int64_t bucket_bytes, first_bucket_bytes;
    terrace_reduce_op op;
    terrace_unused_parameters unused;
    int weighted;
    double dense_above;
    int rounds_on_wire, error_feedback;
} terrace_gradient_options;

/// Returns the defaults.
terrace_gradient_options terrace_gradient_defaults(void);

/// The times of an iteration [s]: terrace::gradient_times.
typedef struct terrace_gradient_times {
    double compute, communication, hidden, exposed, waiting;
} terrace_gradient_times;

/// A reducer of gradients: terrace::gradient_reducer.
typedef struct terrace_gradients terrace_gradients;

/// Makes a reducer. Collective. @param communicator must outlive the reducer   @param options may be NULL for defaults
terrace_status terrace_gradients_create(terrace_communicator* communicator,
                                        const terrace_gradient_parameter* parameters, int count,
                                        const terrace_gradient_options* options, terrace_gradients** made);
void terrace_gradients_destroy(terrace_gradients* gradients);

/// Sets `*at` to the address of a dense gradient: the caller's memory, or its place in its bucket.
terrace_status terrace_gradients_at(terrace_gradients* gradients, int parameter, void** at);
/// Sets the address of the caller's gradient from now on.
terrace_status terrace_gradients_set(terrace_gradients* gradients, int parameter, void* gradient);
terrace_status terrace_gradients_set_weight(terrace_gradients* gradients, double weight);
/// Leaves parameters out of the next iteration. @param root the rank whose list all ranks use; negative: all ranks pass
/// the same list, and nothing is sent
terrace_status terrace_gradients_drop(terrace_gradients* gradients, const int* parameters, int count, int root);
terrace_status terrace_gradients_forward_done(terrace_gradients* gradients, const int* used, int count);
terrace_status terrace_gradients_ready(terrace_gradients* gradients, int parameter);
/// Marks a sparse gradient as complete. @param rows `count` row numbers   @param values `count` rows of elements
terrace_status terrace_gradients_ready_rows(terrace_gradients* gradients, int parameter, const int64_t* rows,
                                            int64_t count, const void* values, terrace_element_type type);
/// Gets the result of a sparse gradient: `*count` row numbers, ascending, and the values row by row. Valid until the
/// next iteration begins. @param was_dense may be NULL; set to 1 if it was sent as a dense gradient, else to 0
terrace_status terrace_gradients_rows(terrace_gradients* gradients, int parameter, terrace_element_type type,
                                      const int64_t** rows, int64_t* count, const void** values, int* was_dense);
/// Makes progress on calls. @param complete set to 1 if all started buckets are complete, else to 0
terrace_status terrace_gradients_poll(terrace_gradients* gradients, int* complete);
terrace_status terrace_gradients_finish(terrace_gradients* gradients);
/// Takes part in the others' iterations until all ranks have called this. @param after_each may be NULL; returns 0, or
/// another number to fail with terrace_other_error
terrace_status terrace_gradients_join(terrace_gradients* gradients, int (*after_each)(void* user), void* user);
/// Keeps iterations local from now on (`local` 1), or ends this (0). May be nested.
terrace_status terrace_gradients_no_sync(terrace_gradients* gradients, int local);
terrace_status terrace_gradients_broadcast(terrace_gradients* gradients, const terrace_state_tensor* tensors, int count,
                                           int root);
terrace_status terrace_gradients_statistics(terrace_gradients* gradients, terrace_gradient_times* times);
int terrace_gradients_buckets(const terrace_gradients* gradients);
int terrace_gradients_rebuilds(const terrace_gradients* gradients);
terrace_status terrace_gradients_bucket_of(terrace_gradients* gradients, int parameter, int* bucket);

/// Makes an allreduce of a sum, and adds this rank's rounding errors on the wire to `rounding_errors`: `count` elements
/// that must live until the call is complete (communicator::allreduce_async). `request` as in terrace.h.
terrace_status terrace_allreduce_keeping_errors(terrace_communicator* communicator, const void* send, void* recv,
                                                int64_t count, terrace_element_type type, void* rounding_errors,
                                                terrace_request** request);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
