#include "schedule/generate/generators.hpp"

namespace terrace {

void ring_reduce_scatter(builder& out, const group& g) {
    for (int step = 0; step < g.size() - 1; ++step) {
        out.next_step();
        out.send(g.next(), g.shard(g.position - step - 1));
        out.recv_reduce(g.prev(), g.shard(g.position - step - 2));
    }
}

void ring_allgather(builder& out, const group& g) {
    for (int step = 0; step < g.size() - 1; ++step) {
        out.next_step();
        out.send(g.next(), g.shard(g.position - step));
        out.recv(g.prev(), g.shard(g.position - step - 1));
    }
}

}  // namespace terrace
