#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "planner/simulate/links.hpp"

namespace terrace::detail {

/// Transfers that share links by max-min fairness: the flows on a link share it equally, and what a flow cannot use,
/// because another link holds it up, goes to the others. When a flow begins or ends, the flows on its links get new
/// shares, and so do their neighbours, up to some dozens. Flows further away keep their rate: to share all links anew
/// each time would take too long.
class flows {
public:
    explicit flows(link_loads& loads) : loads_(loads), links_(at(loads.size())) {}

    /// Adds a flow over some links, which carries nothing yet. Returns its number.
    int add(std::span<const int> links);
    /// Begins a transfer, whose headers take so many more bytes of the links. The flow must carry nothing.
    void begin(int flow, double bytes, double headers, double now);
    /// Ends the transfer of a flow whose bytes have all arrived. begin() may follow at once.
    void end(int flow, double now);

    /// Returns how many times a flow has got a new share: about proportional to the time that sharing costs.
    std::int64_t shares() const noexcept { return shares_; }

    /// Shares the links anew where flows have begun or ended. Calls f(flow, time) for each flow that now ends at
    /// another time.
    template <class F>
    void share(double now, F&& f) {
        for (const int id : reshared(now)) {
            const flow& each = flows_[at(id)];
            f(id, now + each.left / each.rate);
        }
    }

private:
    struct flow {
        bool active = false, seen = false, changed = false;
        std::uint32_t begin = 0, end = 0;                       // of its places
        std::uint32_t first = 0;                                // from here on they are of links that may hold it up
        double most = std::numeric_limits<double>::infinity();  // rate of its slowest link [B/s]
        double rate = 0, share = 0;                             // now, and after the sharing in progress [B/s]
        double left = 0, since = 0;                             // bytes that are left, and the time that is true of
        double payload = 1;                                     // part of the bytes that are no headers
    };
    struct place {
        int link = 0;
        std::uint32_t position = 0;  // of a link that may hold the flow up: the index in link::through
    };
    struct link {
        std::vector<std::pair<int, std::uint32_t>> through;  // active flows, each with the place that is of this link
        double wanted = 0;                                   // the most that they can use together [B/s]
        double used = 0;                                     // what they use now [B/s]
        bool seen = false;
        // Of the sharing in progress: what it shares among which flows, and how many of these have no share yet.
        double spare = 0;
        std::vector<int> sharers;
        int waiting = 0;
    };

    // Returns true if the flows of a link can use more than it has. Only then it needs to be shared.
    bool contended(int l) const noexcept { return links_[at(l)].wanted > loads_.rate(l) * (1 + 1e-9); }
    // The links of its path, and those of them that may hold it up.
    std::span<place> path(const flow& f) noexcept { return {places_.data() + f.begin, places_.data() + f.end}; }
    std::span<place> limits(const flow& f) noexcept { return {places_.data() + f.first, places_.data() + f.end}; }
    std::span<const int> reshared(double now);
    void collect_link(int id) {
        if (std::exchange(links_[at(id)].seen, true)) return;
        reshared_.push_back(id);
    }
    void collect_flow(int id);
    void leave(int id);
    void open_links();
    void fill();
    void settle_at(flow& f, double share) {
        f.seen = false;
        f.share = std::max(share, f.most * 1e-6);  // rounding must not make it zero
        for (const place& p : limits(f)) links_[at(p.link)].spare -= share, --links_[at(p.link)].waiting;
    }
    void settle(flow& f, double now);
    void set_rate(flow& f, double rate) {
        for (const place& p : limits(f)) links_[at(p.link)].used += rate - f.rate;
        f.rate = rate;
    }

    link_loads& loads_;
    std::vector<flow> flows_;
    std::vector<place> places_;  // of all flows
    std::vector<link> links_;
    std::vector<int> touched_;   // flows that began or ended since the last sharing
    std::vector<int> dirty_;     // links that are or were contended because of these
    std::vector<int> reshared_;  // links that are shared anew
    std::vector<int> members_;   // flows that get a new share
    std::vector<int> changed_;   // flows that now end at another time
    std::vector<int> open_;      // links on which flows wait for their share
    std::vector<int> left_;      // flows that wait for their share
    std::int64_t shares_ = 0;
};

}  // namespace terrace::detail
