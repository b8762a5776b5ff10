#include "schedule/registry.hpp"

namespace terrace {

namespace {

template <action Stage>
void hand_over(builder& out, const group& g) {
    out.next_step();
    out.native(Stage, g);
}

}  // namespace

algorithm generate_native() {
    return {
        .name = "native",
        .summary = "ranks of a node in shared memory; direct or doubling where they share none",
        .reduce_scatter = hand_over<action::stage_reduce_scatter>,
        .allgather = hand_over<action::stage_allgather>,
        .reduce = hand_over<action::stage_reduce>,
        .broadcast = hand_over<action::stage_broadcast>,
        .allreduce = hand_over<action::stage_allreduce>,
        .native = true,
        .rounds = [](int) { return 1; },
    };
}

}  // namespace terrace
