#include "schedule/registry.hpp"

namespace terrace {

namespace {

void reduce_scatter(builder& out, const group& g) {
    out.next_step();
    out.native(action::stage_reduce_scatter, g);
}

void allgather(builder& out, const group& g) {
    out.next_step();
    out.native(action::stage_allgather, g);
}

void reduce(builder& out, const group& g) {
    out.next_step();
    out.native(action::stage_reduce, g);
}

void broadcast(builder& out, const group& g) {
    out.next_step();
    out.native(action::stage_broadcast, g);
}

void allreduce(builder& out, const group& g) {
    out.next_step();
    out.native(action::stage_allreduce, g);
}

}  // namespace

algorithm generate_native() {
    return {
        .name = "native",
        .summary = "the transport's own collective; direct or doubling where it has none",
        .reduce_scatter = reduce_scatter,
        .allgather = allgather,
        .reduce = reduce,
        .broadcast = broadcast,
        .allreduce = allreduce,
        .native = true,
        .rounds = [](int) { return 1; },
    };
}

}  // namespace terrace
