#include "bench/report/figures.hpp"

#include <algorithm>
#include <cmath>

namespace terrace::detail::bench {

std::int64_t count_of(collective what, std::int64_t bytes, std::size_t element, int ranks) noexcept {
    const auto size = static_cast<std::int64_t>(element);
    if (!row_of(what).blocks) return bytes / size;
    const std::int64_t quantum = 16 / size;  // blocks are multiples of 16 bytes
    return bytes / size / ranks / quantum * quantum;
}

std::int64_t bytes_of(collective what, std::int64_t count, std::size_t element, int ranks) noexcept {
    return count * static_cast<std::int64_t>(element) * (row_of(what).blocks ? ranks : 1);
}

double bus_factor(collective what, int ranks) noexcept {
    if (row_of(what).has_root() && !row_of(what).blocks) return 1;
    const double each_way = (ranks - 1.0) / ranks;
    return row_of(what).blocks ? each_way : 2 * each_way;
}

double quantile(std::span<const double> values, double part) {
    std::vector<double> sorted(values.begin(), values.end());
    std::sort(sorted.begin(), sorted.end());
    const double place = part * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const auto above = std::min(below + 1, sorted.size() - 1);
    return std::lerp(sorted[below], sorted[above], place - std::floor(place));
}

std::vector<double> paired_ratios(std::span<const double> values, std::span<const double> reference) {
    std::vector<double> ratios(values.size());
    std::transform(values.begin(), values.end(), reference.begin(), ratios.begin(), std::divides<>());
    return ratios;
}

std::vector<std::size_t> order_of_round(std::size_t backends, int round) {
    std::vector<std::size_t> order(backends);
    // 0, 1, n-1, 2, n-2, ...: all differences of neighbours are different, for even n.
    for (std::size_t place = 0; place < backends; ++place) {
        const std::size_t step = (place + 1) / 2;
        order[place] = ((place % 2 == 1 ? step : backends - step) + static_cast<std::size_t>(round)) % backends;
    }
    if (backends % 2 == 1 && static_cast<std::size_t>(round) / backends % 2 == 1)
        std::reverse(order.begin(), order.end());
    return order;
}

}  // namespace terrace::detail::bench
