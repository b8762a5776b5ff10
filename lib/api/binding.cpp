#include "api/binding.hpp"

#include <algorithm>
#include <numeric>

#include "schedule/compose.hpp"

namespace terrace::detail {

std::int64_t binding::elements_of(const call_shape& call) const { return vector_of(call, call.count); }

std::int64_t binding::vector_of(const call_shape& call, std::int64_t count) const {
    if (!call.counts.empty()) return std::reduce(call.counts.begin(), call.counts.end());
    return has_blocks(call.what) ? count * static_cast<std::int64_t>(callers_rank.size()) : count;
}

const rule& binding::rule_of(const call_shape& call) const {
    return plan.choose(call.what, elements_of(call) * static_cast<std::int64_t>(size_of(call.type)));
}

schedule binding::schedule_of(const call_shape& call, const rule& chosen, std::int64_t count, const capabilities& can,
                              buffer home) const {
    return has_blocks(call.what) ? block_schedule(call, chosen, count, can)
                                 : vector_schedule(call, chosen, count, can, home);
}

// Where stages of the transport are in it, the vector is at home where peers reach it: each rank has its own reasons.
schedule binding::vector_schedule(const call_shape& call, const rule& chosen, std::int64_t count,
                                  const capabilities& can, buffer home) const {
    const auto root = std::find(callers_rank.begin(), callers_rank.end(), call.root) - callers_rank.begin();
    const composition c = compose_for(rank, plan.machine, chosen.stages, count, quantum_of(size_of(call.type)),
                                      has_root(call.what) ? static_cast<int>(root) : -1);
    if (!runs_natively(c, rank, can)) return lower(generate(c, call.what, rank), can.without_memory());
    return lower(generate(c, call.what, rank, can, home), can);
}

// Blocks stand in the caller's order in the caller's buffer; `count` elements of each are this chunk's.
schedule binding::block_schedule(const call_shape& call, const rule& chosen, std::int64_t count,
                                 const capabilities& can) const {
    std::vector<std::int64_t> callers_counts = call.counts, callers_begins(callers_rank.size());
    if (callers_counts.empty()) callers_counts.assign(callers_rank.size(), call.count);
    std::exclusive_scan(callers_counts.begin(), callers_counts.end(), callers_begins.begin(), std::int64_t{0});
    std::vector<std::int64_t> counts, begins;
    for (int r : callers_rank) {
        counts.push_back(call.counts.empty() ? count : callers_counts[static_cast<std::size_t>(r)]);
        begins.push_back(callers_begins[static_cast<std::size_t>(r)]);
    }
    const block_layout layout = compose_blocks(plan.machine, chosen.stages, counts);
    return lower(generate(layout, call.what, rank, begins), can);
}

}  // namespace terrace::detail
