#include "schedule/fenced_sends.hpp"

#include <algorithm>

namespace terrace::detail {

namespace {

// Returns by instruction whether it is a send of data received in the same stage.
std::vector<bool> passed_on(const schedule& s) {
    std::vector<bool> result(s.instrs.size());
    for (const instr& i : s.instrs) {
        if (i.what != action::recv && i.what != action::recv_reduce) continue;
        for (std::uint32_t k = 0; k < i.successors; ++k) {
            const std::uint32_t next = s.successors[i.first_successor + k];
            if (s.instrs[next].what == action::send && s.instrs[next].phase == i.phase) result[next] = true;
        }
    }
    return result;
}

}  // namespace

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

}  // namespace terrace::detail
