#include "calls/call_times.hpp"

#include <algorithm>

namespace terrace::detail {

void call_times::started(std::uint64_t call, collective what, std::int64_t bytes) noexcept {
    call_ = bytes > 0 ? call : 0;
    size_ = {what, bytes};
    returned_ = clock::now();
}

bool call_times::wait_begins(std::uint64_t call) noexcept {
    if (call != call_) return false;
    waited_for_ = clock::now();
    return true;
}

void call_times::complete() {
    const std::chrono::duration<double> took = clock::now() - begin_, elsewhere = waited_for_ - returned_;
    if (elsewhere < 0.1 * took) add(size_.first, size_.second, took.count());
}

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
