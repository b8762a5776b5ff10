#include "bench/discover/nearness.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

namespace terrace::detail::bench {

namespace {

constexpr int all_pairs_up_to = 16;        // ranks
constexpr double apart = 1.3;              // least ratio of a distance to the median of the previous level
constexpr double least_gap = 1.12;         // least ratio of the nearest distances of both levels
constexpr double least_confidence = 0.85;  // of a level that is kept

int log2_of(std::size_t n) { return static_cast<int>(std::bit_width(n)); }

// Returns limits between levels of distances: the geometric mean of the two distances around each gap.
std::vector<double> thresholds(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    std::vector<double> found;
    std::size_t begin = 0;
    for (std::size_t i = 1; i < values.size(); ++i) {
        if (values[i] < least_gap * values[i - 1]) continue;
        const double below = values[(begin + i - 1) / 2];
        if (values[i] < apart * below) continue;
        found.push_back(std::sqrt(values[i] * values[i - 1]));
        begin = i;
    }
    return found;
}

class grouper {
public:
    grouper(distances& d, const std::vector<int>& things, std::uint64_t seed)
        : distance_(d), things_(things), dice_(seed) {}

    std::vector<double> sample() {
        const std::size_t n = things_.size();
        std::vector<std::size_t> pivots(n);
        for (std::size_t i = 0; i < n; ++i) pivots[i] = i;
        std::shuffle(pivots.begin(), pivots.end(), dice_);
        if (n > all_pairs_up_to) pivots.resize(at(2 + log2_of(n)));
        std::vector<double> all;
        for (const std::size_t p : pivots)
            for (std::size_t i = 0; i < n; ++i)
                if (i != p && (n > all_pairs_up_to || p < i)) all.push_back(distance_(things_[p], things_[i]));
        return all;
    }

    // Joins groups of `inner` that are nearer to one another than `threshold`.
    grouping at_most(double threshold, const grouping& inner) {
        const std::vector<std::vector<int>> members = inner.members();
        std::vector<int> of(at(inner.count), -1), left = numbers_below(inner.count);
        std::shuffle(left.begin(), left.end(), dice_);
        const int patience = left.size() <= all_pairs_up_to ? inner.count : 2 * log2_of(left.size()) + 4;
        for (int fruitless = 0, next = 0; !left.empty(); ++next) {
            const int pivot = left.back();
            left.pop_back();
            of[at(pivot)] = next;
            if (fruitless > patience) continue;  // the rest stay apart
            const int leader = members[at(pivot)].front();
            const auto is_near = [&](int g) {
                return distance_(things_[at(leader)], things_[at(members[at(g)].front())]) < threshold;
            };
            const auto far = std::stable_partition(left.begin(), left.end(), [&](int g) { return !is_near(g); });
            for (auto g = far; g != left.end(); ++g) of[at(*g)] = next;
            fruitless = far == left.end() ? fruitless + 1 : 0;
            left.erase(far, left.end());
        }
        return grouping{of, inner.count}.of_things(inner);
    }

    // Measures more pairs. Returns the fraction of known distances that agree with the groups, or inside them if less.
    double confidence(const grouping& g, double threshold) {
        for (std::size_t i = 0; i < things_.size(); ++i) {
            const std::size_t other = dice_() % things_.size();
            if (other != i) distance_(things_[i], things_[other]);
        }
        int agree = 0, all = 0, inside_agree = 0, inside = 0;
        for (std::size_t i = 0; i < things_.size(); ++i)
            for (std::size_t j = i + 1; j < things_.size(); ++j) {
                const auto known = distance_.known().find(std::minmax(things_[i], things_[j]));
                if (known == distance_.known().end()) continue;
                const bool together = g.of[i] == g.of[j];
                const bool right = (known->second < threshold) == together;
                agree += right;
                ++all;
                inside += together;
                inside_agree += together && right;
            }
        return all == 0 || inside == 0
                   ? 0
                   : std::min(static_cast<double>(agree) / all, static_cast<double>(inside_agree) / inside);
    }

private:
    distances& distance_;
    const std::vector<int>& things_;
    std::mt19937_64 dice_;
};

}  // namespace

double distances::operator()(int a, int b) {
    const std::pair pair(std::min(a, b), std::max(a, b));
    const auto known = known_.find(pair);
    return known != known_.end() ? known->second
                                 : known_.emplace(pair, measure_(pair.first, pair.second)).first->second;
}

std::vector<near_level> near_levels(distances& distance, const std::vector<int>& things, std::uint64_t seed) {
    if (things.size() < 3) return {};
    grouper g(distance, things, seed);
    grouping inner = grouping::each(static_cast<int>(things.size()));
    std::vector<near_level> found;
    for (const double threshold : thresholds(g.sample())) {
        grouping groups = g.at_most(threshold, inner);
        if (groups.count == inner.count || groups.count == 1) continue;
        const double confidence = g.confidence(groups, threshold);
        if (confidence < least_confidence) continue;
        found.push_back({groups, distance_between(distance, inner, groups, things), confidence});
        inner = std::move(groups);
    }
    return found;
}

double distance_between(const distances& distance, const grouping& inner, const grouping& outer,
                        const std::vector<int>& things) {
    std::map<int, std::size_t> place;
    for (std::size_t i = 0; i < things.size(); ++i) place[things[i]] = i;
    std::vector<double> values;
    for (const auto& [pair, value] : distance.known()) {
        const auto a = place.find(pair.first), b = place.find(pair.second);
        if (a == place.end() || b == place.end()) continue;
        if (outer.of[a->second] == outer.of[b->second] && inner.of[a->second] != inner.of[b->second])
            values.push_back(value);
    }
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
}

}  // namespace terrace::detail::bench
