#include "schedule/registry.hpp"

namespace terrace::detail {

namespace {

void reduce_scatter(builder& out, const group& g) {
    for (int step = 0; step < g.size() - 1; ++step) {
        out.next_step();
        out.send(g.next(), g.shard(g.position() - step - 1));
        out.recv_reduce(g.prev(), g.shard(g.position() - step - 2));
    }
}

void allgather(builder& out, const group& g) {
    for (int step = 0; step < g.size() - 1; ++step) {
        out.next_step();
        out.send(g.next(), g.shard(g.position() - step));
        out.recv(g.prev(), g.shard(g.position() - step - 1));
    }
}

// Positions counted from the root. The shard that goes farthest leaves first, so that all arrive in the last step.
void scatter(builder& out, const group& g) {
    const int i = g.wrapped(g.position() - g.root());
    for (int step = 0; step < g.size() - 1; ++step) {
        out.next_step();
        if (i <= step) out.send(g.next(), g.shard(g.position() + g.size() - 1 - step));
        if (i > 0 && i <= step + 1) out.recv(g.prev(), g.shard(g.position() + g.size() - 2 - step));
    }
}

// The same backwards.
void gather(builder& out, const group& g) {
    const int i = g.wrapped(g.position() - g.root());
    for (int step = g.size() - 2; step >= 0; --step) {
        out.next_step();
        if (i > 0 && i <= step + 1) out.send(g.prev(), g.shard(g.position() + g.size() - 2 - step));
        if (i <= step) out.recv(g.next(), g.shard(g.position() + g.size() - 1 - step));
    }
}

}  // namespace

algorithm generate_ring() {
    return {
        .name = "ring",
        .summary = "shards travel around the ring: p - 1 exchanges with one neighbour",
        .reduce_scatter = reduce_scatter,
        .allgather = allgather,
        .scatter = scatter,
        .gather = gather,
        .rounds = [](int p) { return p - 1; },
        .graph = message_graph::one_neighbour,
    };
}

}  // namespace terrace::detail
