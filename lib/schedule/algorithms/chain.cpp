#include "schedule/registry.hpp"

// Positions are counted from the root. One message is slow, but the vector crosses every link once in each direction:
// with enough chunks in flight no algorithm is faster. Over merged levels the chain crosses each uplink once, too.

namespace terrace::detail {

namespace {

void reduce(builder& out, const group& g) {
    const int i = g.wrapped(g.position() - g.root()), last = out.step() + g.size() - 1;
    out.go_to_step(last - i);
    if (i < g.size() - 1) out.recv_reduce(g.next(), g.whole());
    out.next_step();
    if (i > 0) out.send(g.prev(), g.whole());
    out.go_to_step(last);
}

void broadcast(builder& out, const group& g) {
    const int i = g.wrapped(g.position() - g.root()), first = out.step();
    out.go_to_step(first + i);
    if (i > 0) out.recv(g.prev(), g.whole());
    out.next_step();
    if (i < g.size() - 1) out.send(g.next(), g.whole());
    out.go_to_step(first + g.size() - 1);
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
