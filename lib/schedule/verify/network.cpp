#include <algorithm>

#include <fmt/format.h>

#include "schedule/verify/proof.hpp"

namespace terrace::detail::proof {

// Returns all sends or all receives, by sender and receiver, in program order within a pair. Checks their channels.
std::vector<network::end> network::ends(bool receives) const {
    std::vector<end> result;
    for (std::size_t id = 0; id < size(); ++id) {
        const instr& i = instruction(id);
        if (is_receive(i.what) && receives) result.push_back({i.peer, rank_[id], id});
        if (i.what == action::send && !receives) result.push_back({rank_[id], i.peer, id});
    }
    std::stable_sort(result.begin(), result.end(), [](const end& a, const end& b) { return a.way() < b.way(); });
    int nth = 0;
    for (std::size_t e = 0; e < result.size(); ++e) {
        nth = e > 0 && result[e].way() == result[e - 1].way() ? nth + 1 : 0;
        const int channel = instruction(result[e].id).channel;
        if (channel != nth) refuse(result[e].id, fmt::format("channel {} should be {}", channel, nth));
    }
    return result;
}

network::network(std::span<const schedule> all) : schedules_(all) {
    for (const schedule& s : all) {
        first_.push_back(rank_.size());
        rank_.resize(rank_.size() + s.instrs.size(), s.rank);
    }
    partner_.resize(rank_.size());
    const std::vector<end> sends = ends(false), receives = ends(true);
    for (std::size_t e = 0; e < std::max(sends.size(), receives.size()); ++e) {
        if (e == receives.size() || (e < sends.size() && sends[e].way() < receives[e].way()))
            refuse(sends[e].id, fmt::format("rank {} does not receive it", sends[e].to));
        if (e == sends.size() || receives[e].way() < sends[e].way())
            refuse(receives[e].id, fmt::format("rank {} does not send it", receives[e].from));
        const instr& out = instruction(sends[e].id);
        const instr& in = instruction(receives[e].id);
        if (out.src.part.count() != in.dst.part.count())
            refuse(receives[e].id, fmt::format("expects {} elements, but rank {} sends {}", in.dst.part.count(),
                                               sends[e].from, out.src.part.count()));
        if (out.wire != in.wire)
            refuse(receives[e].id, fmt::format("expects it as {}, but rank {} sends it as {}", to_string(in.wire),
                                               sends[e].from, to_string(out.wire)));
        if (out.step != in.step)
            refuse(receives[e].id, fmt::format("rank {} sends it in step {}", sends[e].from, out.step));
        partner_[sends[e].id] = receives[e].id;
        partner_[receives[e].id] = sends[e].id;
    }
}

}  // namespace terrace::detail::proof
