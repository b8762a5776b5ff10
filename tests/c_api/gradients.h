#pragma once

#include "expect.h"

// Gradients on a communicator of any size: dense, in buckets and of the caller, sparse, dropped, local, with weights.

static void try_dense(terrace_communicator* comm) {
    const int rank = terrace_rank(comm), size = terrace_size(comm);
    float mine[3] = {0, 0, 0};
    const terrace_gradient_parameter parameters[] = {
        {.name = "weight", .count = 3, .type = terrace_float32, .gradient = mine},
        {.name = "bias", .count = 2, .type = terrace_float64},
    };
    terrace_gradient_options options = terrace_gradient_defaults();
    EXPECT(options.bucket_bytes == 25 << 20 && options.op == terrace_avg && options.rounds_on_wire == 1);
    options.op = terrace_sum;
    terrace_gradients* gradients = NULL;
    EXPECT_OK(terrace_gradients_create(comm, parameters, 2, &options, &gradients));
    EXPECT(terrace_gradients_buckets(gradients) == 2 && terrace_gradients_rebuilds(gradients) == 0);
    int bucket = -1, complete = 0;
    EXPECT_OK(terrace_gradients_bucket_of(gradients, 0, &bucket));
    EXPECT(bucket >= 0);
    void* at = NULL;
    EXPECT_OK(terrace_gradients_at(gradients, 0, &at));
    EXPECT(at == mine);
    EXPECT_OK(terrace_gradients_at(gradients, 1, &at));
    double* bias = at;
    for (int i = 0; i < 3; ++i) mine[i] = (float)(rank + i);
    bias[1] = 1;
    EXPECT_OK(terrace_gradients_ready(gradients, 1));
    EXPECT_OK(terrace_gradients_ready(gradients, 0));
    EXPECT(terrace_gradients_ready(gradients, 0) == terrace_usage_error);
    EXPECT_OK(terrace_gradients_poll(gradients, &complete));
    EXPECT_OK(terrace_gradients_finish(gradients));
    EXPECT(mine[2] == (float)(size * (size - 1) / 2 + 2 * size));
    EXPECT_OK(terrace_gradients_at(gradients, 1, &at));
    EXPECT(((double*)at)[1] == size);
    terrace_gradient_times times = {.compute = -1};
    EXPECT_OK(terrace_gradients_statistics(gradients, &times));
    EXPECT(times.compute >= 0);

    EXPECT_OK(terrace_gradients_no_sync(gradients, 1));
    mine[0] = (float)rank;
    EXPECT_OK(terrace_gradients_ready(gradients, 0));
    EXPECT_OK(terrace_gradients_ready(gradients, 1));
    EXPECT_OK(terrace_gradients_finish(gradients));
    EXPECT(mine[0] == (float)rank);
    EXPECT_OK(terrace_gradients_no_sync(gradients, 0));
    EXPECT(terrace_gradients_no_sync(gradients, 0) == terrace_usage_error);

    float other[3] = {1, 1, 1};
    const int dropped = 1;
    EXPECT_OK(terrace_gradients_set(gradients, 0, other));
    EXPECT_OK(terrace_gradients_drop(gradients, &dropped, 1, -1));
    EXPECT_OK(terrace_gradients_ready(gradients, 0));
    EXPECT_OK(terrace_gradients_finish(gradients));
    EXPECT(other[1] == (float)size);
    EXPECT_OK(terrace_gradients_ready(gradients, 0));
    EXPECT(terrace_gradients_finish(gradients) == terrace_usage_error);
    EXPECT_SAYS("has no gradient of parameter 1, \"bias\"");

    const terrace_state_tensor state = {.name = "mean", .data = other, .count = 1, .type = terrace_float32};
    other[0] = (float)rank;
    EXPECT_OK(terrace_gradients_broadcast(gradients, &state, 1, size - 1));
    EXPECT(other[0] == (float)(size - 1));
    EXPECT(terrace_gradients_set_weight(gradients, 2) == terrace_usage_error);
    EXPECT(terrace_gradients_ready(gradients, 9) == terrace_usage_error);
    terrace_gradients_destroy(gradients);
    terrace_gradients_destroy(NULL);
}

static int count_iteration(void* user) {
    ++*(int*)user;
    return 0;
}

static void try_sparse_and_uneven(terrace_communicator* comm) {
    const int rank = terrace_rank(comm), size = terrace_size(comm);
    const terrace_gradient_parameter parameters[] = {
        {.name = "words", .count = (size + 1) * 2, .type = terrace_float32, .row = 2},
        {.name = "bias", .count = 1, .type = terrace_float32},
    };
    terrace_gradient_options options = terrace_gradient_defaults();
    options.unused = terrace_unused_find;
    options.weighted = 1;
    terrace_gradients* gradients = NULL;
    EXPECT_OK(terrace_gradients_create(comm, parameters, 2, &options, &gradients));
    EXPECT_OK(terrace_gradients_set_weight(gradients, 2));
    const int used[] = {0, 1};
    EXPECT_OK(terrace_gradients_forward_done(gradients, used, 2));
    const int64_t rows[] = {size, rank};
    const float values[] = {1, 2, 3, 4};
    EXPECT_OK(terrace_gradients_ready_rows(gradients, 0, rows, 2, values, terrace_float32));
    EXPECT_OK(terrace_gradients_ready(gradients, 1));
    EXPECT_OK(terrace_gradients_finish(gradients));
    const int64_t* all = NULL;
    const void* sums = NULL;
    int64_t count = 0;
    int was_dense = -1;
    EXPECT_OK(terrace_gradients_rows(gradients, 0, terrace_float32, &all, &count, &sums, &was_dense));
    EXPECT(count == size + 1 && all[0] == 0 && all[size] == size && was_dense >= 0);
    EXPECT(((const float*)sums)[0] == 3.0f / (float)size && ((const float*)sums)[2 * size + 1] == 2);

    int iterations = 0;
    if (rank == 0 && size > 1) {
        EXPECT_OK(terrace_gradients_join(gradients, count_iteration, &iterations));
        EXPECT(iterations == 1);
    } else {
        EXPECT_OK(terrace_gradients_ready(gradients, 1));
        EXPECT_OK(terrace_gradients_finish(gradients));
        EXPECT_OK(terrace_gradients_join(gradients, NULL, NULL));
    }
    terrace_gradients_destroy(gradients);
}

static void try_gradients(terrace_communicator* comm) {
    try_dense(comm);
    try_sparse_and_uneven(comm);
    terrace_gradients* none = NULL;
    const terrace_gradient_parameter integer = {.name = "steps", .count = 1, .type = terrace_int32};
    EXPECT(terrace_gradients_create(comm, &integer, 1, NULL, &none) == terrace_usage_error && none == NULL);
    EXPECT(terrace_gradients_create(comm, NULL, 1, NULL, &none) == terrace_usage_error);
    EXPECT_SAYS("parameters is NULL");

    float one = 1, rounded = 0;
    terrace_request* request = NULL;
    EXPECT_OK(terrace_allreduce_keeping_errors(comm, &one, &one, 1, terrace_float32, &rounded, &request));
    EXPECT_OK(terrace_wait(request));
    terrace_request_destroy(request);
    EXPECT(one == (float)terrace_size(comm) && rounded == 0);
}
