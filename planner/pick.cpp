#include "planner/pick.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "planner/policy.hpp"

namespace terrace::detail {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Such a ring waits in each step for whichever rank is late, which no simulation knows.
bool is_ring_over_all(const screen& s, std::size_t i) {
    const std::vector<stage>& stages = s[i].what.stages;
    return s.is_floor(i) && stages.size() == 1 && stages.front().algorithm == "ring";
}

// Drops what is simulated slower than another candidate and not alike, or slower than the floor: than a ring over all
// ranks only if they are not alike.
void drop_slower(const screen& s, std::vector<choice>& tried) {
    double most = infinity;
    for (const choice& c : tried) {
        const bool of_floor = s.is_floor(c.candidate) && c.how == s.how(c.candidate);
        const bool bounds = of_floor && !is_ring_over_all(s, c.candidate);
        most = std::min(most, c.how.simulated * (bounds ? 1 : policy.alike));
    }
    std::erase_if(tried, [&](const choice& c) { return c.how.simulated > most; });
}

}  // namespace

std::vector<std::size_t> equally_fast(const screen& s, std::vector<std::size_t> among, double bytes) {
    std::map<std::size_t, double> times;
    double best = infinity;
    for (const std::size_t i : among) best = std::min(best, times[i] = s.time(i, bytes));
    std::erase_if(among, [&](std::size_t i) { return times[i] > best * policy.equal; });
    return among;
}

std::size_t pick(const screen& s, std::vector<std::size_t> among, std::size_t previous, std::int64_t bytes) {
    const auto size = static_cast<double>(bytes);
    if (among.empty()) among = s.fast_enough(bytes, bytes);
    std::vector<std::size_t> fast = equally_fast(s, std::move(among), size);
    std::map<std::size_t, double> effort;
    double least = infinity;
    for (const std::size_t i : fast) least = std::min(least, effort[i] = s.effort(i, size));
    std::erase_if(fast, [&](std::size_t i) { return effort[i] > least * policy.similar_effort; });
    if (std::find(fast.begin(), fast.end(), previous) != fast.end()) return previous;
    const auto key = [&](std::size_t i) { return std::tuple(s[i].what.stages.size(), effort[i], s.time(i, size)); };
    return *std::min_element(fast.begin(), fast.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
}

choice pick_simulated(const screen& s, std::vector<choice> tried, std::size_t wanted, std::int64_t bytes) {
    drop_slower(s, tried);
    const auto key = [&](const choice& c) {
        return std::tuple(is_ring_over_all(s, c.candidate), c.candidate != wanted, !s.is_floor(c.candidate),
                          s.effort(c.candidate, c.how, static_cast<double>(bytes)));
    };
    return *std::min_element(tried.begin(), tried.end(),
                             [&](const choice& a, const choice& b) { return key(a) < key(b); });
}

}  // namespace terrace::detail
