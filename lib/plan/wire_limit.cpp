#include "plan/wire_limit.hpp"

#include <algorithm>

namespace terrace::detail {

namespace {

void limit(std::vector<stage>& stages, double most) {
    for (stage& s : stages) s.wire = instructed(s.wire);
    if (rounding_error(stages) <= most) return;
    for (stage& s : stages)
        if (s.wire == wire_type::int8) s.wire = wire_type::bfloat16;
    if (rounding_error(stages) <= most) return;
    for (stage& s : stages) s.wire = wire_type::exact;
}

}  // namespace

plan_data limited_rounding(plan_data r, double most) {
    for (auto& [what, rules] : r.rules)
        for (rule& each : rules) limit(each.stages, most);
    return r;
}

bool requires_wire_error(const plan_data& r) {
    const auto is_automatic = [](const stage& s) { return s.wire == wire_type::automatic; };
    const auto any = [&](const rule& each) { return std::ranges::any_of(each.stages, is_automatic); };
    return std::ranges::any_of(r.rules, [&](const auto& of) { return std::ranges::any_of(of.second, any); });
}

}  // namespace terrace::detail
