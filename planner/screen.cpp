#include "planner/screen.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/policy.hpp"
#include "schedule/registry.hpp"

namespace terrace::detail {

screen::screen(const hierarchy& machine, std::span<const priced_candidate> list, std::vector<std::size_t> floor)
    : machine_(machine), list_(list), floor_(std::move(floor)), how_(list.size()) {}

bool screen::is_floor(std::size_t i) const noexcept {
    return std::find(floor_.begin(), floor_.end(), i) != floor_.end();
}

void screen::tune_for(std::int64_t bytes) {
    double best = std::numeric_limits<double>::infinity();
    tuned_.clear();
    for (std::size_t i = 0; i < list_.size(); ++i) {
        if (!is_for(list_[i], bytes)) continue;
        const double least = list_[i].cost.at_least(static_cast<double>(bytes));
        if (least > best * policy.far_off && !is_floor(i)) continue;
        how_[i] = tune(machine_, list_[i], bytes);
        best = std::min(best, how_[i].time);
        tuned_.push_back(i);
    }
}

double screen::time(std::size_t i, const tuning& how, double bytes) const {
    return list_[i].cost.time(bytes, how.lanes, how.chunk);
}

double screen::effort(std::size_t i, const tuning& how, double bytes) const {
    return list_[i].cost.effort(bytes, how.chunk);
}

std::vector<std::size_t> screen::fast_enough(std::int64_t low, std::int64_t high, double by) const {
    const floor_times floor = floor_between(low, high, by);
    std::vector<std::size_t> result;
    for (const std::size_t i : tuned_)
        if (is_fast_enough(i, how_[i], floor)) result.push_back(i);
    drop_hindered(result, static_cast<double>(high));
    return result;
}

// With a root, lanes of scatter stages, and of algorithms that hinder them, are in each other's way, and no simulation
// is made: only a clear gain counts.
void screen::drop_hindered(std::vector<std::size_t>& among, double bytes) const {
    const auto hinders = [](const stage& s) { return s.how == mode::scatter || find_algorithm(s)->hinders_lanes; };
    const auto is_hindered = [&](std::size_t i) {
        return row_of(list_[i].cost.what()).has_root() && std::ranges::any_of(list_[i].what.stages, hinders);
    };
    double best = std::numeric_limits<double>::infinity();
    for (const std::size_t i : among)
        if (!is_hindered(i)) best = std::min(best, time(i, bytes));
    std::erase_if(among, [&](std::size_t i) {
        return is_hindered(i) && how_[i].lanes > 1 && time(i, bytes) * policy.hindered_with_root > best;
    });
}

screen::floor_times screen::floor_between(std::int64_t low, std::int64_t high, double by) const {
    const auto from = static_cast<double>(low), to = static_cast<double>(high);
    floor_times floor;
    for (const double bytes :
         {to, (from + to) / 2, std::min(from + 1, to), from + (to - from) / 4, to - (to - from) / 4}) {
        double& least = floor[bytes] = std::numeric_limits<double>::infinity();
        for (const std::size_t f : floor_) least = std::min(least, time(f, bytes) * by);
    }
    return floor;
}

bool screen::is_fast_enough(std::size_t i, const tuning& how, const floor_times& floor) const {
    return std::all_of(floor.rbegin(), floor.rend(),
                       [&](const auto& each) { return time(i, how, each.first) <= each.second; });
}

}  // namespace terrace::detail
