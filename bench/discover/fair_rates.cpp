#include "bench/discover/fair_rates.hpp"

#include <algorithm>
#include <limits>

#include "base/index.hpp"

namespace terrace::detail::bench {

std::vector<double> fair_rates(std::span<const std::vector<int>> paths, std::span<const double> capacity) {
    constexpr double unlimited = std::numeric_limits<double>::infinity();
    std::vector<double> left(capacity.begin(), capacity.end()), rates(paths.size(), unlimited);
    std::vector<int> waiting(capacity.size());
    for (const std::vector<int>& path : paths)
        for (const int link : path) ++waiting[at(link)];
    std::vector<bool> settled(paths.size());
    while (true) {
        double least = unlimited;
        for (std::size_t l = 0; l < left.size(); ++l)
            if (waiting[l] > 0) least = std::min(least, left[l] / waiting[l]);
        if (least == unlimited) return rates;
        // All streams over the links that are full at this rate.
        std::vector<bool> full(left.size());
        for (std::size_t l = 0; l < left.size(); ++l)
            full[l] = waiting[l] > 0 && left[l] / waiting[l] <= least * (1 + 1e-9);
        for (std::size_t s = 0; s < paths.size(); ++s) {
            if (settled[s] || std::none_of(paths[s].begin(), paths[s].end(), [&](int l) { return full[at(l)]; }))
                continue;
            settled[s] = true;
            rates[s] = least;
            for (const int link : paths[s]) {
                left[at(link)] = std::max(0.0, left[at(link)] - least);
                --waiting[at(link)];
            }
        }
    }
}

}  // namespace terrace::detail::bench
