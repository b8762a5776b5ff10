#include "plan/predicted_time.hpp"

#include <algorithm>

namespace terrace::detail {

double predicted_time(const plan_data& p, collective c, std::int64_t bytes) {
    // A vector up to this size [bytes] is sent in one piece, so all of its time beyond the limit is start-ups. The time
    // beyond the limit of a longer vector grows with the size.
    constexpr double in_one_piece = 64 << 10;
    p.choose(c, bytes);  // throws if there are no rules
    const std::vector<rule>& rules = p.rules.at(c);
    const auto size = static_cast<double>(bytes);
    const rule& first = rules.front();
    const double start_ups = std::min(1.0, in_one_piece / static_cast<double>(first.at));
    double from = 0, base = std::max(0.0, first.predicted - first.limit) * start_ups;  // a point of the line
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
