#include <vector>

#include "base/partition.hpp"
#include "schedule/registry.hpp"

// The circulant exchange of Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms" (2024): distances
// p = s_0 > s_1 = ceil(p/2) > ... > s_q = 1. Before the exchange of distance s, position r holds partial sums of the s'
// shards r, r+1, ..., r+s'-1 (around the group, s' the distance before); the upper s'-s of them go to r+s.

namespace terrace::detail {

namespace {

std::vector<int> distances(int size) {
    std::vector<int> result{size};
    while (result.back() > 1) result.push_back((result.back() + 1) / 2);
    return result;
}

void reduce_scatter(builder& out, const group& g) {
    const std::vector<int> distance = distances(g.size());
    for (std::size_t k = 1; k < distance.size(); ++k) {
        const int s = distance[k], moved = distance[k - 1] - s;
        out.next_step();
        for (range part : g.shards_from(g.position() + s, moved)) out.send(g.rank(g.position() + s), part);
        for (range part : g.shards_from(g.position(), moved)) out.recv_reduce(g.rank(g.position() - s), part);
    }
}

void allgather(builder& out, const group& g) {
    const std::vector<int> distance = distances(g.size());
    for (std::size_t k = distance.size() - 1; k > 0; --k) {
        const int s = distance[k], moved = distance[k - 1] - s;
        out.next_step();
        for (range part : g.shards_from(g.position(), moved)) out.send(g.rank(g.position() - s), part);
        for (range part : g.shards_from(g.position() + s, moved)) out.recv(g.rank(g.position() + s), part);
    }
}

}  // namespace

algorithm generate_halving() {
    return {
        .name = "halving",
        .summary = "circulant exchange: ceil(lg p) exchanges, each of half of what is left, for every p",
        .reduce_scatter = reduce_scatter,
        .allgather = allgather,
        .rounds = ceil_log2,
        .hinders_lanes = true,
    };
}

}  // namespace terrace::detail
