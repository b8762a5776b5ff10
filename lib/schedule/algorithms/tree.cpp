#include "base/partition.hpp"
#include "schedule/registry.hpp"

// A binomial tree over positions counted from the root: in the exchange of distance d = 1, 2, 4, ..., position i + d
// sends to i for every i that is a multiple of 2d.

namespace terrace::detail {

namespace {

struct link {
    bool up = false;    // this position sends to its parent
    bool down = false;  // this position receives from a child
};

link link_at(const group& g, int distance) {
    const int i = g.wrapped(g.position() - g.root());
    return {.up = i % (2 * distance) == distance, .down = i % (2 * distance) == 0 && i + distance < g.size()};
}

void reduce(builder& out, const group& g) {
    for (int distance = 1; distance < g.size(); distance *= 2) {
        out.next_step();
        const link l = link_at(g, distance);
        if (l.up) out.send(g.rank(g.position() - distance), g.whole());
        if (l.down) out.recv_reduce(g.rank(g.position() + distance), g.whole());
    }
}

void broadcast(builder& out, const group& g) {
    for (int distance = 1 << ceil_log2(g.size()) >> 1; distance >= 1; distance /= 2) {
        out.next_step();
        const link l = link_at(g, distance);
        if (l.down) out.send(g.rank(g.position() + distance), g.whole());
        if (l.up) out.recv(g.rank(g.position() - distance), g.whole());
    }
}

}  // namespace

algorithm generate_tree() {
    return {
        .name = "tree",
        .summary = "binomial tree to and from the root",
        .reduce = reduce,
        .broadcast = broadcast,
        .rounds = ceil_log2,
        .graph = message_graph::tree,
    };
}

}  // namespace terrace::detail
