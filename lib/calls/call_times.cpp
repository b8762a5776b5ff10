#include "calls/call_times.hpp"

#include <algorithm>

namespace terrace::detail {

void call_times::add(collective what, std::int64_t bytes, double seconds) {
    if (by_size_.size() == most_sizes && !by_size_.contains({what, bytes})) return;
    times& t = by_size_[{what, bytes}];
    if (std::exchange(t.begun, true)) t.seconds[static_cast<std::size_t>(t.calls++) % latest] = seconds;
}

std::vector<profiled_call> call_times::quartiles() const {
    std::vector<profiled_call> all;
    for (const auto& [size, t] : by_size_) {
        if (t.calls == 0) continue;
        std::vector<double> sorted(t.seconds.begin(),
                                   t.seconds.begin() + std::min<std::int64_t>(t.calls, std::int64_t{latest}));
        std::ranges::sort(sorted);
        all.push_back({.what = size.first, .bytes = size.second, .calls = t.calls, .time = sorted[sorted.size() / 4]});
    }
    return all;
}

}  // namespace terrace::detail
