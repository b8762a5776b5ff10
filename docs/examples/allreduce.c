#include <stdio.h>
#include <stdlib.h>

#include <terrace/terrace.h>

/* Ends the program where a call has failed. */
static void check(terrace_status status) {
    if (status == terrace_ok) return;
    fprintf(stderr, "terrace: %s\n", terrace_last_error());
    exit(1);
}

/* Sums a vector over all ranks, which find one another as TERRACE_BOOTSTRAP says. */
int main(void) {
    terrace_options* options = NULL;
    terrace_communicator* comm = NULL;
    check(terrace_options_from_environment(&options));
    check(terrace_ucx_create(options, NULL, &comm));

    float gradients[1000];
    for (int i = 0; i < 1000; ++i) gradients[i] = 1;
    terrace_request* request = NULL;
    check(terrace_allreduce(comm, gradients, gradients, 1000, terrace_float32, (terrace_reduction){.op = terrace_sum},
                            &request));
    check(terrace_wait(request)); /* compute before this */
    terrace_request_destroy(request);

    if (terrace_rank(comm) == 0) printf("%d ranks: %g\n", terrace_size(comm), gradients[0]);
    terrace_communicator_destroy(comm);
    terrace_options_destroy(options);
    return 0;
}
