#include "plan/predicted_time.hpp"

#include <algorithm>

namespace terrace::detail {

double predicted_time(const plan_data& p, collective c, std::int64_t bytes) {
    p.choose(c, bytes);  // throws
    const std::vector<rule>& rules = p.rules.at(c);
    const auto size = static_cast<double>(bytes);
    const rule& first = rules.front();
    double from = 0, base = std::max(0.0, first.predicted - first.limit);  // a point of the line
    for (const rule& r : rules) {
        const auto to = static_cast<double>(r.at);
        if (to <= from) continue;
        if (size <= to || &r == &rules.back()) return base + (r.predicted - base) * (size - from) / (to - from);
        from = to;
        base = r.predicted;
    }
    return base;
}

}  // namespace terrace::detail
