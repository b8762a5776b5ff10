#include "schedule/registry.hpp"

// Positions counted from the root. Slow for one message, but every link carries the vector once in each direction: with
// enough chunks in flight no algorithm is faster. Over merged levels the chain crosses each uplink once too.

namespace terrace::detail {

namespace {

void reduce(builder& out, const group& g) {
    const int i = g.wrapped(g.position() - g.root());
    for (int from = g.size() - 1; from > 0; --from) {
        out.next_step();
        if (i == from) out.send(g.prev(), g.whole());
        if (i == from - 1) out.recv_reduce(g.next(), g.whole());
    }
}

void broadcast(builder& out, const group& g) {
    const int i = g.wrapped(g.position() - g.root());
    for (int from = 0; from < g.size() - 1; ++from) {
        out.next_step();
        if (i == from) out.send(g.next(), g.whole());
        if (i == from + 1) out.recv(g.prev(), g.whole());
    }
}

}  // namespace

algorithm generate_chain() {
    return {
        .name = "chain",
        .summary = "from neighbour to neighbour, to and from the root: every link carries the vector once",
        .reduce = reduce,
        .broadcast = broadcast,
        .rounds = [](int p) { return p - 1; },
        .graph = message_graph::one_neighbour,
        .passes_on = true,
    };
}

}  // namespace terrace::detail
