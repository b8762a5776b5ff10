#include "api/numbered_groups.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

namespace terrace::detail {

void numbered_groups::open(std::uint64_t number) {
    if (number < next_ || !groups_.try_emplace(number).second)
        throw usage_error(
            fmt::format("group_start: there has been a group {} already; each number is for one group, and the next "
                        "to begin is {}",
                        number, next_));
}

std::optional<std::vector<waiting_start>> numbered_groups::next() {
    const auto first = groups_.begin();
    if (first == groups_.end() || first->first != next_ || !first->second) return {};
    std::optional<std::vector<waiting_start>> calls = std::move(first->second);
    groups_.erase(first);
    ++next_;
    since_.reset();
    return calls;
}

bool numbered_groups::waits() const noexcept {
    return std::any_of(groups_.begin(), groups_.end(), [](const auto& each) { return each.second.has_value(); });
}

std::chrono::duration<double> numbered_groups::age() noexcept {
    if (!waits()) return {};
    const auto now = std::chrono::steady_clock::now();
    if (!since_) since_ = now;
    return now - *since_;
}

void numbered_groups::add_waits(waiting& all) const {
    for (const auto& [number, calls] : groups_)
        if (calls) all.lines.push_back(fmt::format("group {}: this rank has not ended group {}", number, next_));
}

}  // namespace terrace::detail
