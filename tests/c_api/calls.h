#pragma once

#include <stdlib.h>

#include "expect.h"

// Makes calls of every kind on a communicator of any size, and compares their results with the expected ones.

static const terrace_reduction sum = {.op = terrace_sum};

static void finish(terrace_request* request) {
    int complete = 0;
    EXPECT_OK(terrace_test(request, &complete));
    EXPECT_OK(terrace_wait(request));
    EXPECT_OK(terrace_test(request, &complete));
    EXPECT(complete == 1);
    terrace_request_destroy(request);
}

static void try_reductions(terrace_communicator* comm) {
    const int rank = terrace_rank(comm), size = terrace_size(comm), all = size * (size + 1) / 2;
    int32_t mine[3] = {rank + 1, 10 * (rank + 1), 7}, got[3] = {0, 0, 0};
    EXPECT_OK(terrace_allreduce(comm, mine, got, 3, terrace_int32, sum, NULL));
    EXPECT(got[0] == all && got[1] == 10 * all && got[2] == 7 * size);

    terrace_request* request = NULL;
    EXPECT_OK(terrace_allreduce(comm, mine, got, 3, terrace_int32, (terrace_reduction){.op = terrace_max}, &request));
    finish(request);
    EXPECT(got[0] == size && got[2] == 7);

    double scaled = 1;
    const terrace_reduction by = {.op = terrace_premul_sum, .factor = rank + 1, .exact = 1};
    EXPECT_OK(terrace_allreduce(comm, &scaled, &scaled, 1, terrace_float64, by, NULL));
    EXPECT(scaled == all);

    int32_t total = 0;
    EXPECT_OK(terrace_reduce(comm, mine, rank == 0 ? &total : NULL, 1, terrace_int32, 0, sum, NULL));
    EXPECT(total == (rank == 0 ? all : 0));

    int32_t* blocks = calloc((size_t)size * 2, sizeof(int32_t));
    int64_t* counts = calloc((size_t)size, sizeof(int64_t));
    for (int r = 0; r < size; ++r) blocks[r] = r, counts[r] = r == 0 ? 2 : 1;
    EXPECT_OK(terrace_reduce_scatter(comm, blocks, &total, 1, terrace_int32, sum, NULL));
    EXPECT(total == rank * size);
    int32_t part[2] = {0, 0};
    EXPECT_OK(terrace_reduce_scatter_blocks(comm, blocks, part, counts, terrace_int32, sum, NULL));
    EXPECT(part[0] == (rank + 1 < size && rank > 0 ? (rank + 1) * size : rank == 0 ? 0 : blocks[rank + 1] * size));
    free(blocks);
    free(counts);
}

static void note_status(void* user, terrace_status status) {
    __atomic_store_n((int*)user, (int)status, __ATOMIC_SEQ_CST);
}

static void try_callbacks(terrace_communicator* comm) {
    int32_t one = 1;
    int status = -1, complete = 0;
    terrace_request *counted = NULL, *next = NULL;
    EXPECT_OK(terrace_allreduce(comm, &one, &one, 1, terrace_int32, sum, &counted));
    EXPECT_OK(terrace_then(counted, note_status, &status));
    EXPECT_OK(terrace_test(counted, &complete));
    EXPECT(complete == 1);
    terrace_request_destroy(counted);
    EXPECT_OK(terrace_barrier(comm, &next));
    while (__atomic_load_n(&status, __ATOMIC_SEQ_CST) < 0) EXPECT_OK(terrace_test(next, &complete));
    EXPECT(status == terrace_ok && one == terrace_size(comm));
    finish(next);
    EXPECT(terrace_then(NULL, note_status, &status) == terrace_usage_error);
}

static void try_moves(terrace_communicator* comm) {
    const int rank = terrace_rank(comm), size = terrace_size(comm), last = size - 1;
    int64_t mine = 100 + rank, value = rank == last ? 42 : 0;
    int64_t* all = calloc((size_t)size, sizeof(int64_t));
    int64_t* to = calloc((size_t)size, sizeof(int64_t));
    int64_t* ones = calloc((size_t)size, sizeof(int64_t));
    for (int r = 0; r < size; ++r) to[r] = 10 * rank + r, ones[r] = 1;

    EXPECT_OK(terrace_broadcast(comm, &value, 1, terrace_int64, last, NULL));
    EXPECT(value == 42);
    EXPECT_OK(terrace_allgather(comm, &mine, all, 1, terrace_int64, NULL));
    for (int r = 0; r < size; ++r) EXPECT(all[r] == 100 + r);
    EXPECT_OK(terrace_allgather_blocks(comm, &mine, all, ones, terrace_int64, NULL));
    EXPECT(all[last] == 100 + last);
    EXPECT_OK(terrace_alltoall(comm, to, all, 1, terrace_int64, NULL));
    for (int r = 0; r < size; ++r) EXPECT(all[r] == 10 * r + rank);
    EXPECT_OK(terrace_gather(comm, &mine, rank == 0 ? all : NULL, 1, terrace_int64, 0, NULL));
    EXPECT(rank != 0 || all[last] == 100 + last);
    EXPECT_OK(terrace_gather_blocks(comm, &mine, rank == 0 ? all : NULL, ones, terrace_int64, 0, NULL));
    EXPECT(rank != 0 || all[last] == 100 + last);
    EXPECT_OK(terrace_scatter(comm, rank == 0 ? to : NULL, &value, 1, terrace_int64, 0, NULL));
    EXPECT(value == rank);
    EXPECT_OK(terrace_scatter_blocks(comm, rank == last ? to : NULL, &value, ones, terrace_int64, last, NULL));
    EXPECT(value == 10 * last + rank);

    int64_t* came = calloc((size_t)size, sizeof(int64_t));
    EXPECT_OK(terrace_alltoallv(comm, to, ones, all, size, came, 1, terrace_int64));
    for (int r = 0; r < size; ++r) EXPECT(all[r] == 10 * r + rank && came[r] == 1);
    EXPECT_OK(terrace_gatherv(comm, &mine, 1, all, size, rank == 0 ? came : NULL, terrace_int64, 0));
    EXPECT(rank != 0 || (all[last] == 100 + last && came[last] == 1));
    int64_t count = 0;
    EXPECT_OK(terrace_scatterv(comm, to, rank == 0 ? ones : NULL, &value, 1, terrace_int64, 0, &count));
    EXPECT(value == rank && count == 1);
    EXPECT_OK(terrace_barrier(comm, NULL));
    free(all);
    free(to);
    free(ones);
    free(came);
}

static void try_groups_and_messages(terrace_communicator* comm) {
    const int rank = terrace_rank(comm), size = terrace_size(comm);
    float a = 1, b = 2;
    terrace_request *first = NULL, *second = NULL;
    EXPECT_OK(terrace_group_start(comm));
    EXPECT_OK(terrace_allreduce(comm, &a, &a, 1, terrace_float32, sum, &first));
    EXPECT(terrace_allreduce(comm, &b, &b, 1, terrace_float32, sum, NULL) == terrace_usage_error);
    EXPECT_SAYS("while a group is open; pass it a request");
    EXPECT_OK(terrace_allreduce(comm, &b, &b, 1, terrace_float32, sum, &second));
    EXPECT_OK(terrace_group_end(comm));
    finish(first);
    finish(second);
    EXPECT(a == (float)size && b == 2 * (float)size);

    const int16_t word = (int16_t)rank;
    int16_t heard = -1;
    terrace_received got = {-1, 0};
    EXPECT_OK(terrace_recv(comm, &heard, 1, terrace_int16, terrace_any_source, 5, &got, &first));
    EXPECT_OK(terrace_send(comm, &word, 1, terrace_int16, (rank + 1) % size, 5, &second));
    finish(first);
    finish(second);
    EXPECT(heard == (rank + size - 1) % size && got.source == heard && got.count == 1);
}

static void try_parts_and_windows(terrace_communicator* comm) {
    const int rank = terrace_rank(comm), size = terrace_size(comm);
    terrace_communicator* part = NULL;
    EXPECT_OK(terrace_split(comm, rank % 2, -rank, &part));
    EXPECT(terrace_size(part) == (size + 1 - rank % 2) / 2);
    terrace_communicator_destroy(part);
    EXPECT_OK(terrace_split(comm, rank == 0 ? 0 : -1, 0, &part));
    EXPECT((part != NULL) == (rank == 0));
    terrace_communicator_destroy(part);
    EXPECT_OK(terrace_split_by_node(comm, 0, &part));
    EXPECT(part != NULL);
    terrace_communicator_destroy(part);

    terrace_window* window = NULL;
    EXPECT_OK(terrace_allocate(comm, 1000, terrace_float64, &window));
    double* data = terrace_window_data(window);
    for (int i = 0; i < 1000; ++i) data[i] = i;
    EXPECT_OK(terrace_allreduce(comm, data, data, 1000, terrace_float64, sum, NULL));
    EXPECT(data[999] == 999.0 * size);
    terrace_window_destroy(window);

    const char *shape = NULL, *statistics = NULL;
    double seconds = -1;
    EXPECT_OK(terrace_shape(comm, 1 << 20, &shape));
    EXPECT(strlen(shape) > 0);
    EXPECT_OK(terrace_statistics(comm, &statistics));
    EXPECT(strstr(statistics, "\"call\": \"allreduce\"") != NULL);
    EXPECT_OK(terrace_predicted(comm, 1 << 20, &seconds));
    EXPECT(seconds >= 0);
}

static void try_all(terrace_communicator* comm) {
    try_reductions(comm);
    try_callbacks(comm);
    try_moves(comm);
    try_groups_and_messages(comm);
    try_parts_and_windows(comm);
}
