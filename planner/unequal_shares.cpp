#include "planner/unequal_shares.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/policy.hpp"

namespace terrace::detail {

std::vector<int> unequal_shares(const hierarchy& machine) {
    const int n = machine.shape.members(machine.depth() - 1);
    const std::vector<double>& rates = machine.levels.back().rates;
    if (rates.empty() || n < 3) return {};
    const double sum = std::accumulate(rates.begin(), rates.end(), 0.0);
    const double limit = std::max(2 * (n - 1) / sum, 1 / *std::min_element(rates.begin(), rates.end()));
    std::vector<double> parts;
    for (const double rate : rates) parts.push_back(std::max(0.0, (limit * rate - 1) / (n - 2)));
    const double all = std::accumulate(parts.begin(), parts.end(), 0.0);
    std::vector<int> shares;
    int common = 0;
    for (const double part : parts) {
        shares.push_back(static_cast<int>(std::lround(policy.share_parts * part / all)));
        common = std::gcd(common, shares.back());
    }
    if (common == 0) return {};
    for (int& share : shares) share /= common;
    return shares;
}

}  // namespace terrace::detail
