#include "planner/unequal_shares.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/index.hpp"
#include "plan/limit.hpp"
#include "planner/policy.hpp"

namespace terrace::detail {

namespace {

constexpr double precision = 1e-6;  // relative, of a time; far finer than policy.share_parts

bool are_unlike(const std::vector<double>& rates) {
    return std::ranges::adjacent_find(rates, std::not_equal_to()) != rates.end();
}

// Returns the rates of ranks at their NICs. If nodes have one size, this is the lowest rate over ranks at the same
// place in all nodes, since these ranks exchange the data that they own [B/s].
std::vector<double> rates_of_nics(const hierarchy& machine) {
    std::vector<double> rates = machine.nics.rank_rates();
    const std::vector<int> sizes = machine.node_sizes();
    if (std::ranges::adjacent_find(sizes, std::not_equal_to()) != sizes.end()) return rates;
    const std::size_t size = at(sizes.front());
    for (std::size_t rank = size; rank < rates.size(); ++rank)
        rates[rank % size] = std::min(rates[rank % size], rates[rank]);
    for (std::size_t rank = size; rank < rates.size(); ++rank) rates[rank] = rates[rank - size];
    return rates;
}

// Returns the least time that is enough. @param low the result if it is enough, otherwise too short [s/B]
template <class F>
double least_time(double low, F&& is_enough) {
    double high = low;
    while (!is_enough(high)) high *= 2;
    while (high - low > precision * low) (is_enough((low + high) / 2) ? high : low) = (low + high) / 2;
    return high;
}

// Returns the parts that members of a ring must own. If both links of a member are slow, it owns what both need.
// @param rates from each to the next [B/s]   @param time [s/B]
std::vector<double> parts_around(const std::vector<double>& rates, double time) {
    std::vector<double> needed;  // by a member and the next one together
    for (const double rate : rates) needed.push_back(std::max(0.0, 2 - time * rate));
    const double by_all = std::ranges::min(needed);
    std::vector<double> parts(rates.size(), by_all / 2);
    for (double& each : needed) each -= by_all;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        double& before = needed[(i + parts.size() - 1) % parts.size()];
        const double both = std::min(before, needed[i]);
        parts[i] += both;
        before -= both;
        needed[i] -= both;
    }
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] += needed[i];
    return parts;
}

// Returns integers in the same proportions, rounded to share_parts-ths of the largest.
std::vector<int> rounded(const std::vector<double>& parts) {
    const double most = std::ranges::max(parts);
    if (most <= 0) return std::vector(parts.size(), 1);  // the shares do not matter: nothing is owned
    std::vector<int> shares;
    int common = 0;
    for (const double part : parts) {
        shares.push_back(static_cast<int>(std::lround(part / most * policy.share_parts)));
        common = std::gcd(common, shares.back());
    }
    for (int& share : shares) share /= common;
    return shares;
}

}  // namespace

unequal_shares::unequal_shares(const hierarchy& machine) : machine_(machine) {
    const bool alike = std::ranges::none_of(machine.levels, [](const level& l) { return are_unlike(l.rates); });
    if ((alike && !are_unlike(machine.nics.rates)) || machine.has_torus()) return;
    nics_ = rates_of_nics(machine);
    for (int l = 0; l < machine.depth(); ++l) most_.emplace_back(at(machine.shape.members(l)));
    limit_ = limit(machine, 1, collective::allreduce);
    is_enough(least_time(limit_, [&](double time) { return is_enough(time); }));
}

// Sets the data that links can pass in this time. Returns true if the time is enough for the allreduce.
bool unequal_shares::is_enough(double time) {
    const tree& t = machine_.shape;
    time_ = time;
    const auto inside = [&](int l, int domain) {
        const auto first = most_[at(l)].begin() + t.first_child(l, domain);
        return std::accumulate(first, first + t.children(l, domain), -2.0 * (t.children(l, domain) - 1));
    };
    for (int l = 0; l < t.depth(); ++l)
        for (int child = 0; child < t.members(l); ++child) {
            double& most = most_[at(l)][at(child)] = time * machine_.rate(l, child);
            if (l > 0) most = std::min(most, inside(l - 1, child));
            if (most < 1) return false;
        }
    return inside(t.depth() - 1, 0) >= 0;
}

std::vector<int> unequal_shares::of_domain(const std::vector<int>& levels, int domain) const {
    const tree& t = machine_.shape;
    const int inner = levels.front(), outer = levels.back();
    const int first = t.domain_of(inner - 1, t.first_rank(outer, domain));
    const int last = t.domain_of(inner - 1, t.first_rank(outer, domain + 1) - 1);
    const double outside = outer + 1 < t.depth() ? most_[at(outer + 1)][at(domain)] : 0;
    const double each = last - first - 1 + outside;
    if (each <= 0) return std::vector(at(last - first + 1), 1);  // any owner is as good
    std::vector<double> parts;
    for (int child = first; child <= last; ++child) {
        parts.push_back((most_[at(inner)][at(child)] - 1) / each);
        if (nics_.empty() || outer >= machine_.node_levels()) continue;
        const auto rank = nics_.begin() + t.first_rank(inner - 1, child);
        const auto end = nics_.begin() + t.first_rank(inner - 1, child + 1);
        parts.back() = std::min(parts.back(), time_ * std::accumulate(rank, end, 0.0) / outside);
    }
    return rounded(parts);
}

std::vector<int> unequal_shares::of(const std::vector<int>& levels) const {
    std::vector<int> all, first;
    bool alike = true;  // all domains have the same shares
    for (int d = 0; !most_.empty() && d < machine_.shape.domains(levels.back()); ++d) {
        const std::vector<int> shares = of_domain(levels, d);
        if (d == 0) first = shares;
        alike &= shares == first;
        all.insert(all.end(), shares.begin(), shares.end());
    }
    if (std::ranges::count(all, 1) == std::ssize(all)) return {};
    return alike ? first : all;
}

std::vector<int> unequal_shares::around(int level) const {
    const tree& t = machine_.shape;
    const int members = t.members(level);
    if (most_.empty() || members < 3) return {};
    std::vector<double> rates;
    for (int child = 0; child < members; ++child) {
        const int from = t.first_rank(level - 1, child), to = t.first_rank(level - 1, (child + 1) % members);
        double& rate = rates.emplace_back(std::numeric_limits<double>::infinity());
        for (int l = level; l <= t.common_level(from, to); ++l)
            for (const int rank : {from, to}) rate = std::min(rate, machine_.rate(l, t.domain_of(l - 1, rank)));
    }
    const double time = least_time(limit_, [&](double enough) {
        const std::vector<double> parts = parts_around(rates, enough);
        return std::accumulate(parts.begin(), parts.end(), 0.0) <= 1;
    });
    const std::vector<int> shares = rounded(parts_around(rates, time));
    return std::ranges::count(shares, 1) == members ? std::vector<int>() : shares;
}

}  // namespace terrace::detail
