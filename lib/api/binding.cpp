#include "api/binding.hpp"

#include <algorithm>
#include <numeric>

#include "base/element_types.hpp"
#include "base/index.hpp"

namespace terrace::detail {

std::int64_t binding::elements_of(const call_shape& call) const {
    if (!call.counts.empty()) return std::reduce(call.counts.begin(), call.counts.end());
    return has_blocks(call.what) ? call.count * static_cast<std::int64_t>(callers_rank.size()) : call.count;
}

bool binding::uses_tree(const call_shape& call) const {
    return reproducible && goes_up(call.what) && rounds(call.type, call.op);
}

const rule& binding::rule_of(const call_shape& call) const {
    return plan.choose(call.what, elements_of(call) * static_cast<std::int64_t>(size_of(call.type)));
}

// Blocks stand in the caller's order in the caller's buffer.
collective_call binding::planned(const call_shape& call) const {
    collective_call made{
        .what = call.what, .count = call.count, .element = size_of(call.type), .counts_given = !call.counts.empty()};
    if (has_root(call.what))
        made.root =
            static_cast<int>(std::find(callers_rank.begin(), callers_rank.end(), call.root) - callers_rank.begin());
    if (uses_tree(call)) made.tree = callers_rank;
    if (!has_blocks(call.what)) return made;
    std::vector<range> callers = equal_blocks(static_cast<int>(callers_rank.size()), call.count);
    std::int64_t end = 0;
    for (std::size_t r = 0; r < call.counts.size(); ++r) {
        callers[r] = {end, end + call.counts[r]};
        end = callers[r].end;
    }
    for (const int r : callers_rank) made.blocks.push_back(callers[at(r)]);
    return made;
}

}  // namespace terrace::detail
