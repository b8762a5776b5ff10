#include "statistics/message_times.hpp"

#include <algorithm>

namespace terrace::detail {

namespace {

constexpr std::int64_t steps = 65'536;  // of a window
constexpr std::uint64_t length_unit = 64;

}  // namespace

double message_sample::time(std::size_t i) const noexcept {
    return std::chrono::duration<double>(message_times::window).count() * at[i] / steps;
}

message_times::message_times(const std::vector<bool>& far, std::uint32_t every)
    : far_(far), every_(every), flows_(2 * far.size()) {}

void message_times::note(std::size_t number, std::size_t bytes, int calls, clock::time_point now) noexcept {
    flow& f = flows_[number];
    const std::uint32_t before = f.messages++;
    if (!knows_time_) return;
    const std::chrono::nanoseconds time = (now + ahead_).time_since_epoch();
    const std::uint32_t number_of_window = window_of(now);
    if (number_of_window % every_ != 0) return;
    part& p = f.parts[number_of_window / every_ % f.parts.size()];
    if (p.window != number_of_window) p = {number_of_window};
    message_sample& s = p.sample;
    if (s.is_full()) return;
    if (s.count == 0) s.before = before;
    s.calls = static_cast<std::uint8_t>(calls);
    p.bytes += bytes;
    s.at[s.count++] = static_cast<std::uint16_t>(time % window * steps / window);
}

message_sample message_times::finished(const part& p) noexcept {
    message_sample s = p.sample;
    s.length = static_cast<std::uint16_t>(std::min<std::uint64_t>(p.bytes / s.count / length_unit, 65'535));
    return s;
}

}  // namespace terrace::detail
