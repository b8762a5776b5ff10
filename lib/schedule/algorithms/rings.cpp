// A ring for each rank of a node, all over the same ranks. Each ring enters a node at another rank, and so leaves it by
// another NIC. In every other node a ring runs in the opposite direction, so it enters a node at the rank at which it
// left the node before: on rails it stays on its rail.
//
//   two nodes of 3     ring 0:  0 1 2 | 5 4 3     ring 1:  1 2 0 | 3 5 4     ring 2:  2 0 1 | 4 3 5
//
// Each ring moves a part of every shard, or of the whole vector to or from a root.

#include <algorithm>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "schedule/node_rings.hpp"
#include "schedule/registry.hpp"

namespace terrace::detail {

namespace {

// One ring as seen by a position of the group, and the part of the data that the ring moves.
class ring_view {
public:
    ring_view(const group& g, std::vector<int> order, int ring, int rings)
        : g_(g), order_(std::move(order)), place_(position_of(g.position(), order_)), ring_(ring), rings_(rings) {}

    int place() const { return place_; }
    int next() const { return g_.rank(position_at(place_ + 1)); }
    int prev() const { return g_.rank(position_at(place_ - 1)); }
    range shard_at(int place) const { return partition(g_.shard(position_at(place)), rings_, ring_); }
    range whole() const { return partition(g_.whole(), rings_, ring_); }

private:
    int position_at(int place) const { return order_[at(wrap(place, g_.size()))]; }

    const group& g_;
    std::vector<int> order_;
    int place_, ring_, rings_;
};

// Returns the rings. To and from a root they begin at the root.
std::vector<ring_view> rings_of(const group& g, bool from_root = false) {
    std::vector<std::vector<int>> orders = node_rings(g.nodes(), g.size());
    std::vector<ring_view> rings;
    for (std::vector<int>& order : orders) {
        if (from_root) std::rotate(order.begin(), std::find(order.begin(), order.end(), g.root()), order.end());
        rings.emplace_back(g, std::move(order), static_cast<int>(rings.size()), static_cast<int>(orders.size()));
    }
    return rings;
}

void reduce_scatter(builder& out, const group& g) {
    const std::vector<ring_view> rings = rings_of(g);
    out.for_steps_alike(g.size() - 1, [&](int step) {
        for (const ring_view& ring : rings) out.send(ring.next(), ring.shard_at(ring.place() - step - 1));
        for (const ring_view& ring : rings) out.recv_reduce(ring.prev(), ring.shard_at(ring.place() - step - 2));
    });
}

void allgather(builder& out, const group& g) {
    const std::vector<ring_view> rings = rings_of(g);
    out.for_steps_alike(g.size() - 1, [&](int step) {
        for (const ring_view& ring : rings) out.send(ring.next(), ring.shard_at(ring.place() - step));
        for (const ring_view& ring : rings) out.recv(ring.prev(), ring.shard_at(ring.place() - step - 1));
    });
}

void reduce(builder& out, const group& g) {
    const std::vector<ring_view> rings = rings_of(g, true);
    for (int from = g.size() - 1; from > 0; --from) {
        out.next_step();
        for (const ring_view& ring : rings)
            if (ring.place() == from) out.send(ring.prev(), ring.whole());
        for (const ring_view& ring : rings)
            if (ring.place() == from - 1) out.recv_reduce(ring.next(), ring.whole());
    }
}

void broadcast(builder& out, const group& g) {
    const std::vector<ring_view> rings = rings_of(g, true);
    for (int from = 0; from < g.size() - 1; ++from) {
        out.next_step();
        for (const ring_view& ring : rings)
            if (ring.place() == from) out.send(ring.next(), ring.whole());
        for (const ring_view& ring : rings)
            if (ring.place() == from + 1) out.recv(ring.prev(), ring.whole());
    }
}

}  // namespace

algorithm generate_rings() {
    return {
        .name = "rings",
        .summary = "a ring for each rank of a node, each through another rank of every node: all NICs at once",
        .reduce_scatter = reduce_scatter,
        .allgather = allgather,
        .reduce = reduce,
        .broadcast = broadcast,
        .rounds = [](int p) { return p - 1; },
        .graph = message_graph::node_rings,
    };
}

}  // namespace terrace::detail
