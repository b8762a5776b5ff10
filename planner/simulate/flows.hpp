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

/// Transfers that share links by max-min fairness: the flows on a link share it equally, and the part that a flow
/// cannot use, since another link is slower, goes to the others. When a flow begins or ends, flows on its links get new
/// shares, and so do their neighbours, up to some dozens. More distant flows keep their rate, since sharing all links
/// anew each time would take too long.
class flows {
public:
    explicit flows(link_loads& loads) : loads_(loads), links_(at(loads.size())) {}

    /// Adds a flow over some links, without a transfer. Returns its number.
    int add(std::span<const int> links);
    /// Begins a transfer; `headers` are additional bytes on the links. The flow must have no transfer.
    void begin(int flow, double bytes, double headers, double now);
    /// Ends the transfer of a flow whose bytes have all arrived. begin() may follow at once.
    void end(int flow, double now);

    /// Returns how many times flows got a new share, which is about proportional to the computing time of sharing.
    std::int64_t shares() const noexcept { return shares_; }

    /// Shares the links anew after flows began or ended. Calls f(flow, time) for each flow whose end time changed.
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
        std::uint32_t first = 0;                                // first place whose link may limit the flow
        double most = std::numeric_limits<double>::infinity();  // rate of its slowest link [B/s]
        double rate = 0, share = 0;                             // current, and after the sharing in progress [B/s]
        double left = 0, since = 0;                             // bytes left at the time `since` [s]
        double payload = 1;                                     // fraction of the bytes that are not headers
    };
    struct place {
        int link = 0;
        std::uint32_t position = 0;  // index in link::through, if the link may limit the flow
    };
    struct link {
        std::vector<std::pair<int, std::uint32_t>> through;  // active flows, each with its place on this link
        double wanted = 0;                                   // the most that the flows can use together [B/s]
        double used = 0;                                     // current rate of all flows [B/s]
        bool seen = false;
        // Sharing in progress: rate to share, flows that share it, and number of flows without a share yet.
        double spare = 0;
        std::vector<int> sharers;
        int waiting = 0;
    };

    // Returns true if the flows of a link can use more than its rate. Only such links need sharing.
    bool contended(int l) const noexcept { return links_[at(l)].wanted > loads_.rate(l) * (1 + 1e-9); }
    // Return the links of a flow's path, and those that may limit the flow.
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
    std::vector<int> dirty_;     // links contended now or before, because of these flows
    std::vector<int> reshared_;  // links that are shared anew
    std::vector<int> members_;   // flows that get a new share
    std::vector<int> changed_;   // flows whose end time changes
    std::vector<int> open_;      // links with flows that wait for their share
    std::vector<int> left_;      // flows that wait for their share
    std::int64_t shares_ = 0;
};

}  // namespace terrace::detail
