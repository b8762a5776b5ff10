// The C API in a C11 program: ranks as threads, and a job of one rank with a store.
#include <threads.h>

#include "calls.h"
#include "gradients.h"

static int all_calls(void* user, terrace_communicator* comm) {
    wrong = 0;
    try_all(comm);
    try_gradients(comm);
    EXPECT(terrace_allreduce(comm, NULL, NULL, 1, (terrace_element_type)99, sum, NULL) == terrace_usage_error);
    EXPECT_SAYS("there is no element type 99: types are 0 to");
    EXPECT(terrace_allreduce(comm, NULL, NULL, 1, terrace_int8, (terrace_reduction){.op = (terrace_reduce_op)99},
                             NULL) == terrace_usage_error);
    EXPECT_SAYS("there is no operation 99");
    if (wrong == 0) __atomic_add_fetch((int*)user, 1, __ATOMIC_SEQ_CST);
    return 0;
}

static int failing_rank(void* user, terrace_communicator* comm) {
    (void)user;
    if (terrace_rank(comm) != 1) return terrace_barrier(comm, NULL) == terrace_ok ? 0 : 1;
    terrace_communicator* survivors = NULL;
    EXPECT(terrace_shrink(comm, &survivors) == terrace_usage_error && survivors == NULL);
    EXPECT_SAYS("shrink: ranks of loopback are threads of one process");
    return terrace_plan_load("missing.yaml", &(terrace_plan*){NULL}) == terrace_ok ? 0 : 1;
}

static int late_rank(void* user, terrace_communicator* comm) {
    EXPECT(terrace_set_timeout(comm, -1) == terrace_usage_error);
    EXPECT_SAYS("set_timeout: -1 s; allowed: 0 (no limit) or more");
    if (terrace_rank(comm) != 1) {
        EXPECT_OK(terrace_set_timeout(comm, 0.1));
        EXPECT(terrace_barrier(comm, NULL) == terrace_timeout_error);
        EXPECT_SAYS("timed out after 0.1 s");
    }
    EXPECT_OK(terrace_abort(comm));
    EXPECT(terrace_barrier(comm, NULL) == terrace_usage_error);
    __atomic_add_fetch((int*)user, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n((int*)user, __ATOMIC_SEQ_CST) < terrace_size(comm)) thrd_yield();  // rank 1 waits for all
    return 0;
}

static int silent_rank(void* user, terrace_communicator* comm) {
    (void)user;
    (void)comm;
    return 1;
}

static void try_loopback(const char* plan_file) {
    terrace_plan* plan = NULL;
    EXPECT_OK(terrace_plan_load(plan_file, &plan));
    EXPECT(terrace_plan_ranks(plan) == 8);
    EXPECT(strcmp(terrace_plan_name(plan), "two-by-four") == 0);
    EXPECT(strncmp(terrace_plan_id(plan), "xxh3:", 5) == 0);
    int right = 0;
    EXPECT_OK(terrace_loopback_run(plan, NULL, all_calls, &right));
    EXPECT(right == 8);
    EXPECT(terrace_loopback_run(plan, NULL, failing_rank, NULL) == terrace_input_error);
    EXPECT_SAYS("missing.yaml: cannot be opened");
    EXPECT(strcmp(terrace_last_error_source().file, "missing.yaml") == 0);
    EXPECT(terrace_last_error_source().library == NULL);
    int failed = 1;
    EXPECT(terrace_last_failed_ranks(&failed) == NULL && failed == 0);
    int there = 0;
    EXPECT_OK(terrace_loopback_run(plan, NULL, late_rank, &there));
    EXPECT(terrace_loopback_run(plan, NULL, silent_rank, NULL) == terrace_other_error);
    EXPECT_SAYS("the body of rank ");
    terrace_plan_destroy(plan);
}

static int lines = 0;
static void count_line(void* user, int level, const char* line, size_t length) {
    EXPECT(user == &lines && level >= 0 && level <= 2 && length > 0 && line[0] != 0);
    ++lines;
}

static void try_options(void) {
    terrace_options* options = NULL;
    EXPECT_OK(terrace_options_create(&options));
    EXPECT_OK(terrace_options_set(options, "timeout", "30"));
    EXPECT_OK(terrace_options_set(options, "threads", "any"));
    EXPECT(terrace_options_set(options, "threads", "many") == terrace_input_error);
    EXPECT_OK(terrace_options_set(options, "world_ranks", "4,5"));
    EXPECT(terrace_options_set(options, "world_ranks", "4,b") == terrace_input_error);
    EXPECT(terrace_options_set(options, "timeout", "soon") == terrace_input_error);
    EXPECT_SAYS("options: timeout is \"soon\"; allowed: ");
    EXPECT(terrace_options_set(options, "colour", "red") == terrace_usage_error);
    EXPECT_SAYS("there is no option \"colour\"");
    EXPECT(terrace_options_set(NULL, "timeout", "30") == terrace_usage_error);
    EXPECT_SAYS("options is NULL");
    EXPECT_OK(terrace_options_set_log(options, count_line, &lines));
    terrace_options_destroy(options);
    EXPECT_OK(terrace_options_from_environment(&options));
    terrace_options_destroy(options);
}

static void try_names(void) {
    EXPECT(strcmp(terrace_element_type_name(terrace_bfloat16), "bfloat16") == 0 &&
           terrace_size_of(terrace_bfloat16) == 2);
    EXPECT(terrace_element_type_name(-1) == NULL && terrace_size_of(99) == 0);
    EXPECT(strcmp(terrace_reduce_op_name(terrace_avg), "avg") == 0 && terrace_reduce_op_name(99) == NULL);
    EXPECT(terrace_is_defined(terrace_band, terrace_int8) == 1 &&
           terrace_is_defined(terrace_band, terrace_float32) == 0);
    EXPECT(strcmp(terrace_status_name(terrace_plan_error), "terrace_plan_error") == 0 &&
           terrace_status_name(99) == NULL);
    EXPECT(strlen(terrace_version()) >= 5);
}

// A store for a job of one rank.
enum { most_values = 64, most_bytes = 4096 };
static struct value {
    char key[256], bytes[most_bytes];
    size_t count;
} values[most_values];
static int stored = 0, is_full = 0;

static int put_value(void* user, const char* key, const void* value, size_t bytes) {
    (void)user;
    int i = 0;
    while (i < stored && strcmp(values[i].key, key) != 0) ++i;
    if (is_full || i == most_values || bytes > most_bytes || strlen(key) >= sizeof(values[i].key)) return -1;
    strcpy(values[i].key, key);
    memcpy(values[i].bytes, value, values[i].count = bytes);
    if (i == stored) ++stored;
    return 0;
}

static int get_value(void* user, const char* key, const void** value, size_t* bytes) {
    (void)user;
    for (int i = 0; i < stored; ++i)
        if (strcmp(values[i].key, key) == 0) return *value = values[i].bytes, *bytes = values[i].count, 1;
    return 0;
}

static void try_store(void) {
    const terrace_store store = {.rank = 0, .size = 1, .put = put_value, .get = get_value};
    terrace_communicator* comm = NULL;
    terrace_options* options = NULL;
    EXPECT_OK(terrace_options_create(&options));
    EXPECT_OK(terrace_options_set(options, "threads", "any"));
    const terrace_status status = terrace_ucx_create_in_store(&store, options, NULL, &comm);
    terrace_options_destroy(options);
    if (status == terrace_transport_error && strstr(terrace_last_error(), "without UCX") != NULL) return;
    EXPECT(status == terrace_ok);
    if (status != terrace_ok) return;
    EXPECT(stored > 0);
    try_all(comm);
    terrace_communicator_destroy(comm);
    is_full = 1;
    EXPECT(terrace_ucx_create_in_store(&store, NULL, NULL, &comm) == terrace_other_error);
    EXPECT_SAYS("the store's function put has failed");
}

int main(int argc, char** argv) {
    EXPECT(argc == 2);
    EXPECT(terrace_last_error()[0] == 0);
    try_names();
    try_options();
    try_loopback(argv[1]);
    try_store();
    return wrong == 0 ? 0 : 1;
}
