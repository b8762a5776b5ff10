#include "bench/discover/probes.hpp"

#include <algorithm>
#include <cmath>

namespace terrace::detail::bench {

namespace {

constexpr double agreement = 0.05;  // largest relative difference of two results that agree
constexpr std::size_t most_answers = 6;

// Returns true if the best two agree; `answers` are sorted, best first.
bool agree(const std::vector<double>& answers) {
    return answers.size() >= 2 && std::abs(answers[1] - answers[0]) <= agreement * std::max(answers[0], answers[1]);
}

}  // namespace

template <class Better, class Ask>
double careful_probes::best_of(std::size_t fewest, Better better, Ask ask) {
    std::vector<double> answers;
    while (answers.size() < most_answers && (answers.size() < fewest || !agree(answers))) {
        count();
        answers.push_back(ask());
        std::sort(answers.begin(), answers.end(), better);
    }
    if (!agree(answers)) ++unstable_;
    return answers.front();
}

double careful_probes::latency(int a, int b) {
    return best_of(3, std::less<>(), [&] { return asked_.latency(a, b); });
}

double careful_probes::overhead(int a, int b) {
    return best_of(2, std::less<>(), [&] { return asked_.overhead(a, b); });
}

double careful_probes::rate(stream self) {
    return best_of(2, std::greater<>(), [&] { return asked_.rates(std::span(&self, 1)).front(); });
}

double careful_probes::rough_rate(stream self) {
    return best_of(2, std::greater<>(), [&] { return asked_.rough_rate(self); });
}

std::vector<double> careful_probes::rates_once(std::span<const stream> all) {
    if (all.empty()) return {};
    count();
    return asked_.rates(all);
}

std::vector<double> careful_probes::rates(std::span<const stream> all) {
    const std::vector<double> first = rates_once(all), second = rates_once(all);
    bool differ = false;
    for (std::size_t i = 0; i < all.size(); ++i)
        differ = differ || std::abs(first[i] - second[i]) > 2 * agreement * std::max(first[i], second[i]);
    std::vector<double> found(all.size());
    if (!differ) {
        for (std::size_t i = 0; i < all.size(); ++i) found[i] = (first[i] + second[i]) / 2;
        return found;
    }
    const std::vector<double> third = rates_once(all);
    for (std::size_t i = 0; i < all.size(); ++i)
        found[i] = std::max(std::min(first[i], second[i]), std::min(std::max(first[i], second[i]), third[i]));
    return found;
}

}  // namespace terrace::detail::bench
