#include "calls/binding.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/element_types.hpp"
#include "base/index.hpp"

namespace terrace::detail {

bool binding::uses_tree(const call_shape& call) const {
    return reproducible && row_of(call.what).up && rounds(call.type, call.op);
}

bool binding::meets_wire_types(const call_shape& call) const {
    if (!rounds_on_wire || call.exact || !row_of(call.what).up || row_of(call.what).has_root()) return false;
    return std::ranges::any_of(rule_of(call).stages, [](const stage& s) { return s.wire != wire_type::exact; });
}

std::string binding::objection_to_wire(const call_shape& call) const {
    if (!meets_wire_types(call)) return {};
    if (call.op != reduce_op::sum && call.op != reduce_op::avg && call.op != reduce_op::premul_sum)
        return fmt::format("{} cannot be rounded on the wire, only sum, avg and premul_sum; pass exact(reduce_op::{})",
                           to_string(call.op), to_string(call.op));
    if (!is_real(call.type))
        return fmt::format("{} cannot be rounded on the wire, only floats; pass exact(reduce_op::{})",
                           to_string(call.type), to_string(call.op));
    return {};
}

rule binding::rule_to_run(const call_shape& call) const {
    const rule& planned = rule_of(call);
    if (!call.has_own_lengths()) return planned;
    if (call.what != collective::gather && call.known == lengths::own && is_straight(planned)) return planned;
    stage all{.levels = {}, .group = plan.machine.ranks(), .how = mode::scatter, .algorithm = "direct"};
    for (int l = 0; l < plan.machine.depth(); ++l) all.levels.push_back(l);
    rule made;
    made.stages.push_back(std::move(all));
    return made;
}

// In the caller's buffer, blocks lie in the order of the caller's rank numbers.
collective_call binding::planned(const call_shape& call) const {
    collective_call made{
        .what = call.what, .count = call.count, .element = size_of(call.type), .counts_given = !call.counts.empty()};
    if (row_of(call.what).has_root()) made.root = position_of(call.root, callers_rank);
    if (uses_tree(call)) made.tree = callers_rank;
    made.rounds_on_wire = rounds_on_wire && !call.exact;
    if (!row_of(call.what).blocks) return made;
    const int ranks = static_cast<int>(callers_rank.size());
    const std::vector<range> blocks = call.counts.empty() ? equal_blocks(ranks, call.count) : side_by_side(call.counts);
    for (const int r : callers_rank) made.blocks.push_back(blocks[at(r)]);
    return made;
}

}  // namespace terrace::detail
