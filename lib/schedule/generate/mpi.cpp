#include "schedule/registry.hpp"

namespace terrace {

namespace {

template <action Stage>
void hand_over(builder& out, const group& g) {
    out.next_step();
    out.library(Stage, g);
}

}  // namespace

// No allreduce: which rank reduces which element is MPI's own affair there, and ranks might end up with different bits.
algorithm generate_mpi() {
    return {
        .name = "mpi",
        .summary = "MPI's own nonblocking collective; direct where the network is not MPI's",
        .reduce_scatter = hand_over<action::stage_reduce_scatter>,
        .allgather = hand_over<action::stage_allgather>,
        .reduce = hand_over<action::stage_reduce>,
        .broadcast = hand_over<action::stage_broadcast>,
        .library = true,
        .rounds = [](int) { return 1; },
    };
}

}  // namespace terrace
