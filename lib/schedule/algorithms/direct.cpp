#include <vector>

#include "schedule/registry.hpp"

// Exchange j is with the positions at distance j. No exchange depends on another, so all of them are in flight at once;
// the steps only give both ends one order.

namespace terrace::detail {

namespace {

// Receives `mine` from everybody and reduces in position order; sends shard `theirs(position)` to each.
template <class Theirs>
void exchange_and_reduce(builder& out, const group& g, range mine, Theirs theirs) {
    std::vector<builder::place> inputs(static_cast<std::size_t>(g.size()), builder::place(mine));
    for (int distance = 1; distance < g.size(); ++distance) {
        out.next_step();
        const int from = g.wrapped(g.position() - distance);
        builder::place& input = inputs[static_cast<std::size_t>(from)];
        input = out.scratch(mine.count());
        out.send(g.rank(g.position() + distance), theirs(g.position() + distance));
        out.recv(g.rank(from), input);
    }
    out.next_step();
    out.reduce(mine, inputs);
}

void reduce_scatter(builder& out, const group& g) {
    exchange_and_reduce(out, g, g.shard(g.position()), [&](int position) { return g.shard(position); });
}

void allgather(builder& out, const group& g) {
    for (int distance = 1; distance < g.size(); ++distance) {
        out.next_step();
        out.send(g.rank(g.position() + distance), g.shard(g.position()));
        out.recv(g.rank(g.position() - distance), g.shard(g.position() - distance));
    }
}

void reduce(builder& out, const group& g) {
    const range nothing{g.whole().begin, g.whole().begin};
    exchange_and_reduce(out, g, g.is_root() ? g.whole() : nothing,
                        [&](int position) { return g.wrapped(position) == g.root() ? g.whole() : nothing; });
}

void broadcast(builder& out, const group& g) {
    for (int distance = 1; distance < g.size(); ++distance) {
        out.next_step();
        if (g.is_root()) out.send(g.rank(g.position() + distance), g.whole());
        else if (g.wrapped(g.position() - distance) == g.root()) out.recv(g.rank(g.root()), g.whole());
    }
}

void scatter(builder& out, const group& g) {
    for (int distance = 1; distance < g.size(); ++distance) {
        out.next_step();
        const int to = g.position() + distance;
        if (g.is_root()) out.send(g.rank(to), g.shard(to));
        else if (g.wrapped(g.position() - distance) == g.root()) out.recv(g.rank(g.root()), g.own_shard());
    }
}

void gather(builder& out, const group& g) {
    for (int distance = 1; distance < g.size(); ++distance) {
        out.next_step();
        const int from = g.position() - distance;
        if (g.is_root()) out.recv(g.rank(from), g.shard(from));
        else if (g.wrapped(g.position() + distance) == g.root()) out.send(g.rank(g.root()), g.own_shard());
    }
}

void allreduce(builder& out, const group& g) {
    exchange_and_reduce(out, g, g.whole(), [&](int) { return g.whole(); });
}

}  // namespace

algorithm generate_direct() {
    return {
        .name = "direct",
        .summary = "everybody exchanges with everybody at once; one reduction of all inputs",
        .reduce_scatter = reduce_scatter,
        .allgather = allgather,
        .reduce = reduce,
        .broadcast = broadcast,
        .allreduce = allreduce,
        .scatter = scatter,
        .gather = gather,
        .rounds = [](int) { return 1; },
        .graph = message_graph::all_at_once,
    };
}

}  // namespace terrace::detail
