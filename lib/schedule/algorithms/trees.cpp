// Two binary trees over the positions without the root, counted 1 to n from it, each for one half of the vector. In the
// first tree odd numbers are leaves. The second has the same shape, mirrored (n even) or shifted by one (n odd), and
// even numbers are leaves. So a position forwards at most one half, to two others. Link rates are used in full, as in a
// chain, in ceil(lg p) steps. (Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", 2009.)
//
//   n = 7        4                 3
//              2   6             1   5        In the second tree 7 comes before 1.
//             1 3 5 7           7 2 4 6

#include <bit>
#include <vector>

#include "base/partition.hpp"
#include "schedule/registry.hpp"

namespace terrace::detail {

namespace {

int lowest_bit(int i) { return i & -i; }

// A binary tree whose nodes 1 to n are in order from left to right. It is cut out of one with 2^k - 1 nodes, in which
// the children of i are i - d / 2 and i + d / 2, where d is the lowest bit of i.
class ordered_tree {
public:
    explicit ordered_tree(int size) : size_(size) {}

    int root() const { return static_cast<int>(std::bit_floor(static_cast<unsigned>(size_))); }
    // Returns the number of nodes above node i.
    int depth(int i) const {
        int depth = 0;
        for (; i != root(); ++depth) i = parent(i);
        return depth;
    }
    int parent(int i) const {
        do {
            const int d = lowest_bit(i);
            i = (i ^ d) | (2 * d);
        } while (i > size_);
        return i;
    }
    std::vector<int> children(int i) const {
        std::vector<int> found;
        int d = lowest_bit(i) / 2;
        if (d == 0) return found;
        found.push_back(i - d);
        int right = i + d;
        while (right > size_ && d > 1) right -= d /= 2;
        if (right <= size_) found.push_back(right);
        return found;
    }

private:
    int size_;
};

// The messages of a position in one of the trees. The group's root is above the whole tree.
struct half_tree {
    range part;
    int step = 0;  // step in which a broadcast brings the part from above, from 1; 0: the root
    int above = -1;
    std::vector<int> below = {};  // ranks that get the part from this one, in step `step` + 1
};

half_tree half_of(const group& g, int which) {
    const int n = g.size() - 1, i = g.wrapped(g.position() - g.root());
    const ordered_tree shape(n);
    const auto rank_of = [&](int node) {
        return g.rank(g.root() + (which == 0 ? node : n % 2 == 0 ? n + 1 - node : (node + n - 2) % n + 1));
    };
    half_tree half{.part = partition(g.whole(), 2, which)};
    if (i == 0) {
        half.below = {rank_of(shape.root())};
        return half;
    }
    const int node = which == 0 ? i : n % 2 == 0 ? n + 1 - i : i % n + 1;
    half.step = 1 + shape.depth(node);
    half.above = half.step == 1 ? g.rank(g.root()) : rank_of(shape.parent(node));
    for (const int child : shape.children(node)) half.below.push_back(rank_of(child));
    return half;
}

// Adds the parts of two children together, so neither message waits for the other.
void reduce_from_below(builder& out, const half_tree& t) {
    if (t.below.size() == 1) return out.recv_reduce(t.below.front(), t.part);
    std::vector<builder::place> parts{t.part};
    for (const int child : t.below) {
        parts.emplace_back(out.scratch(t.part.count()));
        out.recv(child, parts.back());
    }
    out.reduce(t.part, parts);
}

void reduce(builder& out, const group& g) {
    if (g.size() == 1) return;
    const half_tree halves[]{half_of(g, 0), half_of(g, 1)};
    for (int step = ceil_log2(g.size()); step > 0; --step) {
        out.next_step();
        for (const half_tree& t : halves)
            if (t.step == step) out.send(t.above, t.part);
        for (const half_tree& t : halves)
            if (t.step == step - 1) reduce_from_below(out, t);
    }
}

void broadcast(builder& out, const group& g) {
    if (g.size() == 1) return;
    const half_tree halves[]{half_of(g, 0), half_of(g, 1)};
    for (int step = 1; step <= ceil_log2(g.size()); ++step) {
        out.next_step();
        for (const half_tree& t : halves)
            if (t.step == step - 1)
                for (const int child : t.below) out.send(child, t.part);
        for (const half_tree& t : halves)
            if (t.step == step) out.recv(t.above, t.part);
    }
}

}  // namespace

algorithm generate_trees() {
    return {
        .name = "trees",
        .summary = "two binary trees to and from the root, a half through each: ceil(lg p) steps over full links",
        .reduce = reduce,
        .broadcast = broadcast,
        .rounds = ceil_log2,
        .cuts = 2,
        .hinders_lanes = true,
    };
}

}  // namespace terrace::detail
