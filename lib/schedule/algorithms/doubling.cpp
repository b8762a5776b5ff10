#include <bit>

#include "base/partition.hpp"
#include "schedule/registry.hpp"

// With 2^k <= p < 2^(k+1), the last p - 2^k positions first add their data to those of the first ones, and get the
// result at the end. The lower position is always the left operand, so all ranks compute the same bits.

namespace terrace::detail {

namespace {

int power_within(int size) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(size))); }

void allreduce(builder& out, const group& g) {
    const int power = power_within(g.size()), extra = g.size() - power;
    const bool folds = g.position() >= power, hosts = g.position() < extra;
    if (extra > 0) {
        out.next_step();
        if (folds) out.send(g.rank(g.position() - power), g.whole());
        if (hosts) out.recv_reduce(g.rank(g.position() + power), g.whole());
    }
    for (int distance = 1; distance < power; distance *= 2) {
        out.next_step();
        if (folds) continue;
        const int partner = g.position() ^ distance;
        const operand theirs = out.scratch(g.whole().count());
        out.send(g.rank(partner), g.whole());
        out.recv(g.rank(partner), theirs);
        if (g.position() < partner) out.reduce(g.whole(), {g.whole(), theirs});
        else out.reduce(g.whole(), {theirs, g.whole()});
    }
    if (extra > 0) {
        out.next_step();
        if (hosts) out.send(g.rank(g.position() + power), g.whole());
        if (folds) out.recv(g.rank(g.position() - power), g.whole());
    }
}

int rounds(int size) {
    const int power = power_within(size);
    return ceil_log2(power) + (size > power ? 2 : 0);
}

}  // namespace

algorithm generate_doubling() {
    return {
        .name = "doubling",
        .summary = "recursive doubling of the whole piece; ranks beyond a power of two fold in and copy out",
        .allreduce = allreduce,
        .rounds = rounds,
    };
}

}  // namespace terrace::detail
