#include <algorithm>
#include <vector>

#include "base/partition.hpp"
#include "schedule/node_rings.hpp"
#include "schedule/registry.hpp"

// Exchange j is with the positions at distance j. No exchange depends on another, so all of them are in flight at once;
// the steps only define one order for both ends.

namespace terrace::detail {

namespace {

// Receives `mine` from every other member and reduces in position order; sends `theirs(position)` to each.
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

// On the root, calls at_root(position) for each other position, each in a step of its own. Elsewhere calls away(), in
// the step of the position's distance from the root.
template <class AtRoot, class Away>
void for_each_from_root(builder& out, const group& g, int direction, AtRoot at_root, Away away) {
    const int first = out.step(), own = g.wrapped(direction * (g.position() - g.root()));
    for (int distance = g.is_root() ? 1 : own; distance < (g.is_root() ? g.size() : own + 1); ++distance) {
        out.go_to_step(first + distance);
        if (g.is_root()) at_root(g.root() + direction * distance);
        else away();
    }
    out.go_to_step(first + g.size() - 1);
}

void scatter(builder& out, const group& g) {
    for_each_from_root(
        out, g, 1, [&](int to) { out.send(g.rank(to), g.shard(to)); },
        [&] { out.recv(g.rank(g.root()), g.own_shard()); });
}

void gather(builder& out, const group& g) {
    for_each_from_root(
        out, g, -1, [&](int from) { out.recv(g.rank(from), g.shard(from)); },
        [&] { out.send(g.rank(g.root()), g.own_shard()); });
}

void allreduce(builder& out, const group& g) {
    exchange_and_reduce(out, g, g.whole(), [&](int) { return g.whole(); });
}

// In each round a node sends to one other node and receives from one, so its link never serves two nodes at once.
//
//   round    1          2                        A round has a step for each way to pair off the ranks of two nodes
//   node 0   -> node 1  -> node 2                by shifting them. If nodes are unequal, some ranks of the larger one
//   node 1   -> node 2  -> node 0                have no peer in a step. Pairs inside nodes come last: they run while
//   node 2   -> node 0  -> node 1                the last messages are on the wire.
void exchange(builder& out, const group& g, std::span<const operand> gives, std::span<const operand> gets) {
    const std::vector<int> starts = node_starts(g.nodes(), g.size());
    const int nodes = static_cast<int>(starts.size()) - 1;
    const auto first = [&](int node) { return starts[static_cast<std::size_t>(wrap(node, nodes))]; };
    const auto ranks = [&](int node) { return starts[static_cast<std::size_t>(wrap(node, nodes)) + 1] - first(node); };
    int most = 1, mine = 0;
    for (int n = 0; n < nodes; ++n) {
        most = std::max(most, ranks(n));
        if (first(n) <= g.position()) mine = n;
    }
    const int place = g.position() - first(mine);
    for (int away = 1; away <= nodes; ++away)
        for (int turn = away == nodes ? 1 : 0; turn < most; ++turn) {
            out.next_step();
            const int to = wrap(place + turn, most), from = wrap(place - turn, most);
            if (to < ranks(mine + away)) {
                const int peer = first(mine + away) + to;
                out.send(g.rank(peer), gives[static_cast<std::size_t>(peer)]);
            }
            if (from < ranks(mine - away)) {
                const int peer = first(mine - away) + from;
                out.recv(g.rank(peer), gets[static_cast<std::size_t>(peer)]);
            }
        }
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
        .exchange = exchange,
        .rounds = [](int) { return 1; },
        .graph = message_graph::all_at_once,
    };
}

}  // namespace terrace::detail
