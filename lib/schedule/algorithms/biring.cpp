#include "base/partition.hpp"
#include "schedule/registry.hpp"

namespace terrace::detail {

namespace {

// Returns half of a shard. First halves go one way around the ring, second halves the other way.
range half(range shard, int which) { return partition(shard, 2, which); }

void reduce_scatter(builder& out, const group& g) {
    out.for_steps_alike(g.size() - 1, [&](int step) {
        out.send(g.next(), half(g.shard(g.position() - step - 1), 0));
        out.send(g.prev(), half(g.shard(g.position() + step + 1), 1));
        out.recv_reduce(g.prev(), half(g.shard(g.position() - step - 2), 0));
        out.recv_reduce(g.next(), half(g.shard(g.position() + step + 2), 1));
    });
}

void allgather(builder& out, const group& g) {
    out.for_steps_alike(g.size() - 1, [&](int step) {
        out.send(g.next(), half(g.shard(g.position() - step), 0));
        out.send(g.prev(), half(g.shard(g.position() + step), 1));
        out.recv(g.prev(), half(g.shard(g.position() - step - 1), 0));
        out.recv(g.next(), half(g.shard(g.position() + step + 1), 1));
    });
}

// Emits a step of a scatter in one direction, `next` = 1 or -1: the shard that goes farthest leaves first.
void pass_from_root(builder& out, const group& g, int step, int next, int which) {
    const int i = g.wrapped(next * (g.position() - g.root())), rest = g.size() - 1 - step;
    if (i <= step) out.send(g.rank(g.position() + next), half(g.shard(g.position() + next * rest), which));
    if (i > 0 && i <= step + 1)
        out.recv(g.rank(g.position() - next), half(g.shard(g.position() + next * (rest - 1)), which));
}

void pass_to_root(builder& out, const group& g, int step, int next, int which) {
    const int i = g.wrapped(next * (g.position() - g.root())), rest = g.size() - 1 - step;
    if (i > 0 && i <= step + 1)
        out.send(g.rank(g.position() - next), half(g.shard(g.position() + next * (rest - 1)), which));
    if (i <= step) out.recv(g.rank(g.position() + next), half(g.shard(g.position() + next * rest), which));
}

void scatter(builder& out, const group& g) {
    for (int step = 0; step < g.size() - 1; ++step) {
        out.next_step();
        pass_from_root(out, g, step, 1, 0);
        pass_from_root(out, g, step, -1, 1);
    }
}

void gather(builder& out, const group& g) {
    for (int step = g.size() - 2; step >= 0; --step) {
        out.next_step();
        pass_to_root(out, g, step, 1, 0);
        pass_to_root(out, g, step, -1, 1);
    }
}

}  // namespace

algorithm generate_biring() {
    return {
        .name = "biring",
        .summary = "half of each shard travels around the ring, half the other way: both links of each neighbour",
        .reduce_scatter = reduce_scatter,
        .allgather = allgather,
        .scatter = scatter,
        .gather = gather,
        .rounds = [](int p) { return p - 1; },
        .graph = message_graph::both_neighbours,
        .cuts = 2,
    };
}

}  // namespace terrace::detail
