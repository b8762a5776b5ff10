#pragma once

#include <terrace/terrace.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// Gradients, from C: part of <terrace/terrace.h>, which includes this. What calls do is said in
// <terrace/gradients.hpp>, whose members have the same names. Parameters are named by their index in the list that the
// reducer was made from.

/// A parameter whose gradient is reduced. Name, count, type and row are the same on every rank.
typedef struct terrace_gradient_parameter {
    const char* name;           ///< for messages; read before the call returns
    int64_t count;              ///< elements; may be 0
    terrace_element_type type;  ///< a floating-point type
    void* gradient;             ///< the caller's, of `count` elements; NULL: it lives in its bucket
    int64_t row;                ///< above 0: sparse, with rows of so many elements; `gradient` is NULL then
} terrace_gradient_parameter;

/// Memory that terrace_gradients_broadcast sends.
typedef struct terrace_state_tensor {
    const char* name;
    void* data;
    int64_t count;
    terrace_element_type type;
} terrace_state_tensor;

/// What a gradient means that has not come when an iteration ends.
typedef enum terrace_unused_parameters {
    terrace_unused_error = 0,
    terrace_unused_find = 1,
    terrace_unused_fixed = 2
} terrace_unused_parameters;

enum { terrace_automatic_buckets = -1 };  ///< for bucket_bytes

/// terrace::gradient_options.
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

/// Where the time of an iteration went [s]: terrace::gradient_times.
typedef struct terrace_gradient_times {
    double compute, communication, hidden, exposed, waiting;
} terrace_gradient_times;

/// A reducer of gradients: terrace::gradient_reducer.
typedef struct terrace_gradients terrace_gradients;

/// Makes a reducer. Collective. @param communicator must outlive it   @param options may be NULL for the defaults
terrace_status terrace_gradients_create(terrace_communicator* communicator,
                                        const terrace_gradient_parameter* parameters, int count,
                                        const terrace_gradient_options* options, terrace_gradients** made);
void terrace_gradients_destroy(terrace_gradients* gradients);

/// Sets `*at` to the address of a gradient: the caller's, or its place in its bucket.
terrace_status terrace_gradients_at(terrace_gradients* gradients, int parameter, void** at);
/// Changes where the caller's gradient lies.
terrace_status terrace_gradients_set(terrace_gradients* gradients, int parameter, void* gradient);
terrace_status terrace_gradients_set_weight(terrace_gradients* gradients, double weight);
/// Drops parameters from the next iteration. @param root the rank whose list holds for all; negative: all ranks pass
/// the same, and nothing is sent
terrace_status terrace_gradients_drop(terrace_gradients* gradients, const int* parameters, int count, int root);
terrace_status terrace_gradients_forward_done(terrace_gradients* gradients, const int* used, int count);
terrace_status terrace_gradients_ready(terrace_gradients* gradients, int parameter);
/// Says that a sparse gradient is complete. @param values `count` rows of elements, one after the other
terrace_status terrace_gradients_ready_rows(terrace_gradients* gradients, int parameter, const int64_t* rows,
                                            int64_t count, const void* values, terrace_element_type type);
/// Sets the result of a sparse gradient: `*count` row numbers, ascending, and the values of one row after the other.
/// Valid until the next iteration begins. @param was_dense may be NULL; set to 1 if it travelled as a dense gradient
terrace_status terrace_gradients_rows(terrace_gradients* gradients, int parameter, terrace_element_type type,
                                      const int64_t** rows, int64_t* count, const void** values, int* was_dense);
/// Moves calls along. @param complete set to 1 if all buckets that were started are complete, else to 0
terrace_status terrace_gradients_poll(terrace_gradients* gradients, int* complete);
terrace_status terrace_gradients_finish(terrace_gradients* gradients);
/// Takes part in the others' iterations until all ranks have called this. @param after_each may be NULL; returns 0, or
/// another number if it has failed: terrace_other_error
terrace_status terrace_gradients_join(terrace_gradients* gradients, int (*after_each)(void* user), void* user);
/// Keeps iterations local from here on (`local` 1), or no longer (0). Nests.
terrace_status terrace_gradients_no_sync(terrace_gradients* gradients, int local);
terrace_status terrace_gradients_broadcast(terrace_gradients* gradients, const terrace_state_tensor* tensors, int count,
                                           int root);
terrace_status terrace_gradients_statistics(terrace_gradients* gradients, terrace_gradient_times* times);
int terrace_gradients_buckets(const terrace_gradients* gradients);
int terrace_gradients_rebuilds(const terrace_gradients* gradients);
terrace_status terrace_gradients_bucket_of(terrace_gradients* gradients, int parameter, int* bucket);

/// Starts an allreduce of a sum, and adds to `rounding_errors`, of `count` elements, what this rank rounds away on the
/// wire: communicator::allreduce_async. It must live until the call is complete. As the collectives of terrace.h.
terrace_status terrace_allreduce_keeping_errors(terrace_communicator* communicator, const void* send, void* recv,
                                                int64_t count, terrace_element_type type, void* rounding_errors,
                                                terrace_request** request);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
