#include "statistics/message_times.hpp"

#include <algorithm>

namespace terrace::detail {

namespace {

constexpr std::int64_t steps = 65'536;  // of a window
constexpr std::size_t length_unit = 64, most_length = 65'535;
constexpr std::size_t most_noted = 4096;  // between looks, which are milliseconds apart

}  // namespace

double message_sample::time(std::size_t i) const noexcept {
    return std::chrono::duration<double>(message_times::window).count() * at[i] / steps;
}

message_times::message_times(std::vector<bool> far, std::uint32_t every)
    : far_(std::move(far)), every_(every), numbers_(2 * far_.size()) {
    noted_.reserve(most_noted);
}

// Both ends count messages that they do not note.
void message_times::note(int peer, bool sends, std::size_t bytes, int calls, clock::time_point now) noexcept {
    const std::uint32_t flow = 2 * static_cast<std::uint32_t>(peer) + (sends ? 0 : 1);
    const std::uint32_t number = numbers_[flow]++;
    if (!knows_time_ || noted_.size() == most_noted || window_of(now) % every_ != 0) return;
    noted_.push_back({now + ahead_, flow, number,
                      static_cast<std::uint16_t>(std::min(bytes / length_unit, most_length)),
                      static_cast<std::uint16_t>(calls)});
}

void message_times::add(message_sample& to, const noted& n) noexcept {
    if (to.count == 0) to.first = n.number;
    to.calls = n.calls;
    to.at[to.count] = static_cast<std::uint16_t>(n.at.time_since_epoch() % window * steps / window);
    to.length[to.count++] = n.length;
}

}  // namespace terrace::detail
