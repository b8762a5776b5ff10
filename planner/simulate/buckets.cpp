#include "planner/simulate/buckets.hpp"

#include <algorithm>
#include <utility>

namespace terrace::detail {

buckets::buckets(const link_loads& links, double most) : links_(links), most_(most) {
    for (int link = 0; link < links.size(); ++link) capacity_.push_back(best(link));
    if (most_ == 0) return;
    all_.resize(static_cast<std::size_t>(links.size()));
    for (int link = 0; link < links.size(); ++link) at(link).tokens = tokens_of(link);
}

void buckets::add(int link, double by, double now) {
    if (!has(link)) return;
    bucket& b = at(link);
    if (!b.empty)
        b.tokens = std::clamp(b.tokens + (links_.rate(link) - b.load) * (now - b.since), 0.0, tokens_of(link));
    b.since = now;
    b.load += by;
    if (!std::exchange(b.touched, true)) touched_.push_back(link);
}

bool buckets::run_out(int link, std::uint32_t version) {
    bucket& b = at(link);
    if (b.version != version) return false;
    b.tokens = 0;
    set_empty(link, true);
    return true;
}

}  // namespace terrace::detail
