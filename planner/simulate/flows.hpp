#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/hierarchy.hpp"
#include "base/partition.hpp"

namespace terrace {

/// What passed one direction of one link: of a child, counted over the machine, into a level.
struct link_load {
    int level = 0;
    int child = 0;
    bool inward = false;         ///< towards the child; on a ring, downwards from it rather than upwards
    double rate = 0;             ///< [B/s]
    double bytes = 0;
    std::vector<float> history;  ///< bytes in each interval of link_loads::interval()
};

/// Loads of all links of a machine, and when they were loaded.
class link_loads {
public:
    explicit link_loads(const hierarchy& machine);

    /// Calls f(link) for every link that a message passes, outermost level last on the way out. On a torus it goes
    /// dimension by dimension, the shorter way around.
    template <class F>
    void for_each_link(int from, int to, F&& f) const {
        const int top = machine_.shape.common_level(from, to);
        for (int l = 0; l <= top; ++l) {
            const int a = machine_.shape.domain_of(l - 1, from), b = machine_.shape.domain_of(l - 1, to);
            const int first = first_[static_cast<std::size_t>(l)];
            if (machine_.levels[static_cast<std::size_t>(l)].ring) {
                for_each_hop(l, a, b, [&](int child, bool down) { f(first + 2 * child + down); });
                continue;
            }
            f(first + 2 * a);
            f(first + 2 * b + 1);
        }
    }
    double rate(int link) const { return links_[static_cast<std::size_t>(link)].rate; }
    /// Whether it can hold up what its child's own children send: else nobody ever waits for it.
    bool limits(int link) const { return limits_[static_cast<std::size_t>(link)]; }
    int size() const noexcept { return static_cast<int>(links_.size()); }

    /// `bytes` pass between two times [s].
    void add(int link, double begin, double end, double bytes);
    double interval() const noexcept { return interval_; }
    std::vector<link_load> take() noexcept { return std::move(links_); }

private:
    static constexpr std::size_t intervals = 256;

    // From one child of a level of rings as far as to another's place on its ring.
    template <class F>
    void for_each_hop(int l, int a, int b, F&& f) const {
        const int n = machine_.shape.children(l, 0);
        const int from = a - machine_.shape.first_child(l, machine_.shape.domain_of(l, first_rank(l, a)));
        const int to = b - machine_.shape.first_child(l, machine_.shape.domain_of(l, first_rank(l, b)));
        const int hops = ring_hops(from, to, n);
        for (int k = 0; k < (hops < 0 ? -hops : hops); ++k) f(a - from + wrap(from + (hops < 0 ? -k : k), n), hops < 0);
    }
    int first_rank(int l, int child) const { return machine_.shape.first_rank(l - 1, child); }

    void widen();

    const hierarchy& machine_;
    std::vector<int> first_;  // link of each level
    std::vector<link_load> links_;
    std::vector<bool> limits_;
    double interval_ = 1e-6;
};

/// Transfers that share links: those on a link share it equally, and what some cannot use, as another link holds them
/// up, the others get (max-min fairness). Where one begins or ends, the flows on its links are shared anew, and their
/// neighbours' up to some dozens; those further away keep what they have, or simulations would take too long.
class flows {
public:
    explicit flows(link_loads& loads) : loads_(loads), links_(static_cast<std::size_t>(loads.size())) {}

    /// A way between two ranks, with nothing on it.
    int add(int from, int to);
    /// A flow that carries nothing begins to carry so many bytes.
    void begin(int flow, double bytes, double now);
    /// All bytes of a flow have arrived; begin() may follow at once.
    void end(int flow, double now);

    /// Shares the links anew where flows have begun or ended. Calls f(flow, time) for each whose end is another now.
    template <class F>
    void share(double now, F&& f) {
        for (const int id : reshared(now)) {
            const flow& each = flows_[static_cast<std::size_t>(id)];
            f(id, now + each.left / each.rate);
        }
    }

private:
    struct flow {
        std::vector<int> passes;          // all links
        std::vector<int> links;           // those that may hold it up
        std::vector<std::size_t> places;  // in link::through of each of these
        double most = 0;                  // that its slowest link carries [B/s]
        double rate = 0, share = 0;       // now, and by the new sharing
        double left = 0, since = 0;       // bytes left at a time
        bool active = false, seen = false, changed = false;
    };
    struct link {
        std::vector<std::pair<int, std::size_t>> through;  // active flows, and which of their links this is
        double wanted = 0;                                 // by them, at most [B/s]
        double spare = 0;
        int waiting = 0;  // flows without a share
        bool seen = false;
    };

    // A link that has enough for all that can ever come is nobody's concern.
    bool crowded(int l) const noexcept {
        return links_[static_cast<std::size_t>(l)].wanted > loads_.rate(l) * (1 + 1e-9);
    }
    std::span<const int> reshared(double now);
    void collect_link(int id);
    void collect_flow(int id);
    void leave(int id);
    void fill();
    void settle(flow& f, double now);

    link_loads& loads_;
    std::vector<flow> flows_;
    std::vector<link> links_;
    std::vector<int> touched_;                      // flows that began or ended since the last sharing
    std::vector<int> dirty_;                        // links that are or were crowded, by these
    std::vector<int> reshared_, members_, changed_;  // links and flows that are shared anew; those with other ends
    std::vector<int> open_, left_;                   // links and flows that are not settled yet
};

}  // namespace terrace
