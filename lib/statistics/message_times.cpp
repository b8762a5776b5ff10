#include "statistics/message_times.hpp"

namespace terrace::detail {

namespace {

constexpr std::int64_t steps = 65'536;  // steps of time in a window
constexpr std::size_t length_unit = 64, most_length = 65'535;
constexpr std::size_t most_noted = 4096;  // records that are kept until take()

}  // namespace

double message_sample::time(std::size_t i) const noexcept {
    return std::chrono::duration<double>(message_times::window).count() * at[i] / steps;
}

void message_times::set_ahead(clock::duration ahead) {
    ahead_ = ahead;
    knows_time_ = true;
    noted_.reserve(most_noted);
}

void message_times::keep(noted n, std::size_t bytes) noexcept {
    if (noted_.size() == most_noted || number_of(n.at) % every_ != 0) return;
    n.length = static_cast<std::uint16_t>(std::min(bytes / length_unit, most_length));
    noted_.push_back(n);
}

void message_times::add(message_sample& to, const noted& n) noexcept {
    to.calls = n.calls;
    to.at[to.count] = static_cast<std::uint16_t>(n.at.time_since_epoch() % window * steps / window);
    to.length[to.count++] = n.length;
}

}  // namespace terrace::detail
