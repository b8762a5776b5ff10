#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "planner/simulate/buckets.hpp"
#include "planner/simulate/links.hpp"

namespace terrace {

/// Transfers that share links: those on a link share it equally, and what some cannot use, as another link holds them
/// up, the others get (max-min fairness). Where one begins or ends, the flows on its links are shared anew, and their
/// neighbours' up to some dozens; those further away keep what they have, or simulations would take too long.
class flows {
public:
    /// @param burst bytes that shapers of network links let pass (buckets)
    explicit flows(link_loads& loads, double burst = 0)
        : loads_(loads), shapers_(loads, burst), links_(static_cast<std::size_t>(loads.size())) {}

    /// A way between two ranks, with nothing on it.
    int add(int from, int to);
    /// One over a single link: of what does not pass all links on its way at the same rate.
    int add(int link);
    /// A flow that carries nothing begins to carry so many bytes.
    void begin(int flow, double bytes, double now);
    /// All bytes of a flow have arrived; begin() may follow at once.
    void end(int flow, double now);

    /// The bucket of a link has run out, unless its load is another since the version.
    void run_out(int link, std::uint32_t version) {
        if (shapers_.run_out(link, version)) dirty_.push_back(link);
    }

    /// Flows that got a new share so far, each time: what sharing takes is about in proportion to it.
    std::int64_t shares() const noexcept { return shares_; }

    /// Shares the links anew where flows have begun or ended, or buckets run out. Calls f(flow, time) for each whose
    /// end is another now, and g(link, time, version) for each whose bucket will then run out.
    template <class F, class G>
    void share(double now, F&& f, G&& g) {
        for (const int id : reshared(now)) {
            const flow& each = flows_[static_cast<std::size_t>(id)];
            f(id, now + each.left / each.rate);
        }
        shapers_.settle(now, g);
    }

private:
    struct flow {
        std::vector<int> passes;                                // all links
        std::vector<int> links;                                 // those that may hold it up
        std::vector<std::size_t> places;                        // in link::through of each of these
        double most = std::numeric_limits<double>::infinity();  // that its slowest link carries [B/s]
        double rate = 0, share = 0;                             // now, and by the new sharing
        double left = 0, since = 0;                             // bytes left at a time
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
        return links_[static_cast<std::size_t>(l)].wanted > shapers_.capacity(l) * (1 + 1e-9);
    }
    void pass(flow& f, int link);
    std::span<const int> reshared(double now);
    void collect_link(int id);
    void collect_flow(int id);
    void leave(int id, double now);
    void fill();
    void settle_at(flow& f, double share);
    void settle(flow& f, double now);
    void set_rate(flow& f, double rate, double now);

    link_loads& loads_;
    buckets shapers_;
    std::vector<flow> flows_;
    std::vector<link> links_;
    std::vector<int> touched_;                       // flows that began or ended since the last sharing
    std::vector<int> dirty_;                         // links that are or were crowded, by these
    std::vector<int> reshared_, members_, changed_;  // links and flows that are shared anew; those with other ends
    std::int64_t shares_ = 0;
    std::vector<int> open_;  // links that flows wait at for their share
    std::vector<int> free_;  // flows that no such link need hold back, those of least rate last
};

}  // namespace terrace
