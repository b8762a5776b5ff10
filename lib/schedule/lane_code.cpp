#include "schedule/lane_code.hpp"

#include <algorithm>

#include "schedule/fenced_sends.hpp"

namespace terrace::detail {

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
