#include "schedule/lane_code.hpp"

#include <algorithm>

namespace terrace::detail {

namespace {

// Returns by instruction whether it is a send of data received in the same stage.
std::vector<bool> passed_on(const schedule& s) {
    std::vector<bool> result(s.instrs.size());
    for (const instr& i : s.instrs) {
        if (i.what != action::recv && i.what != action::recv_reduce) continue;
        for (const std::uint32_t next : s.successors_of(i))
            if (s.instrs[next].what == action::send && s.instrs[next].phase == i.phase) result[next] = true;
    }
    return result;
}

// Returns by instruction whether it is a fenced send: one that waits until the lane has no earlier send in flight.
//
// A fenced send is the first send of a step that passes on data received in the same stage, to other ranks than the
// step before. This occurs in `halving`, and below the root of a `tree`. Without the fence, a rank that is slightly
// ahead would start such a step while its last sends are still on the wire. Both would share the rank's link, the
// receiver of the earlier send would fall behind, and each exchange would spread the ranks further apart.
std::vector<bool> fenced_sends(const schedule& s) {
    const std::vector<bool> passes_on = passed_on(s);
    std::vector<std::size_t> sends;
    for (std::size_t n = 0; n < s.instrs.size(); ++n)
        if (s.instrs[n].what == action::send) sends.push_back(n);

    std::vector<bool> result(s.instrs.size());
    std::vector<int> before, peers;  // receivers of the last step's sends, and of this step's
    for (std::size_t first = 0, end = 0; first < sends.size(); first = end, before = std::move(peers)) {
        peers.clear();
        bool any_passed_on = false;
        for (end = first; end < sends.size() && s.instrs[sends[end]].step == s.instrs[sends[first]].step; ++end) {
            peers.push_back(s.instrs[sends[end]].peer);
            any_passed_on = any_passed_on || passes_on[sends[end]];
        }
        result[sends[first]] =
            any_passed_on && first > 0 &&
            std::find_first_of(peers.begin(), peers.end(), before.begin(), before.end()) == peers.end();
    }
    return result;
}

}  // namespace

lane_code::lane_code(const schedule& s) : fenced(fenced_sends(s)) {
    kinds.reserve(s.instrs.size());
    waits.reserve(s.instrs.size());
    first_successor.reserve(s.instrs.size() + 1);
    successors.reserve(s.successors.size());
    for (std::uint32_t n = 0; n < s.instrs.size(); ++n) {
        const instr& i = s.instrs[n];
        kinds.push_back(kind_of(i.what));
        waits.push_back(i.waits);
        first_successor.push_back(static_cast<std::uint32_t>(successors.size()));
        const std::span<const std::uint32_t> after = s.successors_of(i);
        successors.insert(successors.end(), after.begin(), after.end());
        switch (kinds.back()) {
            case kind::send: sends.push_back(n); break;
            case kind::receive: receives.push_back(n); break;
            case kind::stage: stages.push_back(n); break;
            case kind::local: locals.push_back(n); break;
        }
    }
    first_successor.push_back(static_cast<std::uint32_t>(successors.size()));
    takes_routes = std::ranges::any_of(s.phases, [](const phase& p) { return p.route > 0; });
}

}  // namespace terrace::detail
