#include "planner/unequal_shares.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/index.hpp"
#include "planner/policy.hpp"

namespace terrace::detail {

namespace {

// Returns integers in the same proportions, rounded to multiples of a unit, or nothing if all are equal.
std::vector<int> rounded(const std::vector<double>& parts, double unit) {
    std::vector<int> shares;
    int common = 0;
    for (const double part : parts) {
        shares.push_back(static_cast<int>(std::lround(part / unit)));
        common = std::gcd(common, shares.back());
    }
    if (common == 0 || std::equal(shares.begin() + 1, shares.end(), shares.begin())) return {};
    for (int& share : shares) share /= common;
    return shares;
}

}  // namespace

std::vector<int> shares_by_links(const hierarchy& machine) {
    const int n = machine.shape.members(machine.depth() - 1);
    const std::vector<double>& rates = machine.levels.back().rates;
    if (rates.empty() || n < 3) return {};
    const double sum = std::accumulate(rates.begin(), rates.end(), 0.0);
    const double limit = std::max(2 * (n - 1) / sum, 1 / *std::min_element(rates.begin(), rates.end()));
    std::vector<double> parts;
    for (const double rate : rates) parts.push_back(std::max(0.0, (limit * rate - 1) / (n - 2)));
    return rounded(parts, std::accumulate(parts.begin(), parts.end(), 0.0) / policy.share_parts);
}

std::vector<int> shares_by_nics(const hierarchy& machine) {
    const std::vector<double> rates = machine.nics.rank_rates();
    const std::vector<int> sizes = machine.node_sizes();
    if (rates.empty() || std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) != sizes.end())
        return {};
    std::vector<double> least(at(sizes.front()), std::numeric_limits<double>::infinity());
    for (int rank = 0; rank < machine.ranks(); ++rank) {
        double& rate = least[at(rank % sizes.front())];
        rate = std::min(rate, rates[at(rank)]);
    }
    return rounded(least, *std::max_element(least.begin(), least.end()) / policy.share_parts);
}

}  // namespace terrace::detail
