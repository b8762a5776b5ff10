#include "schedule/registry.hpp"

namespace terrace::detail {

namespace {

void reduce_scatter(builder& out, const group& g) {
    out.for_steps_alike(g.size() - 1, [&](int step) {
        out.send(g.next(), g.shard(g.position() - step - 1));
        out.recv_reduce(g.prev(), g.shard(g.position() - step - 2));
    });
}

void allgather(builder& out, const group& g) {
    out.for_steps_alike(g.size() - 1, [&](int step) {
        out.send(g.next(), g.shard(g.position() - step));
        out.recv(g.prev(), g.shard(g.position() - step - 1));
    });
}

}  // namespace

algorithm generate_ring() {
    return {
        .name = "ring",
        .summary = "shards travel around the ring: p - 1 exchanges with one neighbour",
        .reduce_scatter = reduce_scatter,
        .allgather = allgather,
        .rounds = [](int p) { return p - 1; },
        .graph = message_graph::one_neighbour,
    };
}

}  // namespace terrace::detail
