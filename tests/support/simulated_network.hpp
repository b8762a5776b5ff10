#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

#include "base/index.hpp"
#include "bench/discover/hypothesis.hpp"
#include "bench/discover/probes.hpp"
#include "machine/hierarchy.hpp"
#include "support/dice.hpp"

namespace terrace::detail::bench {

/// A machine that answers probes with noise, as if other jobs ran on it: most answers are off by up to `noise`, and one
/// in twenty is up to three times as slow. Ranks are placed in shuffled order.
class simulated_network final : public probes {
public:
    simulated_network(const hierarchy& h, std::uint64_t seed, double noise = 0.03)
        : h_(h), dice_(seed), noise_(noise), place_(at(h.ranks())) {
        std::iota(place_.begin(), place_.end(), 0);
        for (std::size_t i = place_.size(); i > 1; --i) std::swap(place_[i - 1], place_[dice_.below(i)]);
    }

    int ranks() const override { return h_.ranks(); }

    double latency(int a, int b) override {
        const level& common = h_.levels[at(h_.shape.common_level(place_[at(a)], place_[at(b)]))];
        return (common.latency + common.overhead) * (stray() ? slowness() : 1 + noise_ * part());
    }

    double overhead(int a, int b) override {
        const level& common = h_.levels[at(h_.shape.common_level(place_[at(a)], place_[at(b)]))];
        return common.overhead * (stray() ? slowness() : 1 + noise_ * part());
    }

    std::vector<double> rates(std::span<const stream> all) override {
        std::map<link, int> number;
        std::vector<double> capacity;
        stream_paths paths;
        for (const stream& s : all) {
            for (const auto& [which, rate] : path_of(place_[at(s.from)], place_[at(s.to)])) {
                const auto [known, is_new] = number.try_emplace(which, static_cast<int>(capacity.size()));
                if (is_new) capacity.push_back(rate);
                paths.add_link(known->second);
            }
            paths.end_stream();
        }
        std::vector<double> found = fair_rates(paths, capacity);
        const double slow = stray() ? slowness() : 1;
        for (double& rate : found) rate *= (1 - noise_ * part()) / (slow > 1 && dice_.coin() ? slow : 1);
        return found;
    }

    /// Returns the place of each rank in the machine.
    const std::vector<int>& places() const noexcept { return place_; }

private:
    using link = std::tuple<int, int, bool>;  // level (beyond all: a rail's spine), child, downwards

    std::vector<std::pair<link, double>> path_of(int a, int b) const {
        std::vector<std::pair<link, double>> path;
        for (int l = 0; l <= h_.shape.common_level(a, b); ++l) {
            const int from = h_.shape.domain_of(l - 1, a), to = h_.shape.domain_of(l - 1, b);
            if (l != h_.node_levels() || h_.nics.empty()) {
                path.push_back({{l, from, false}, h_.rate(l, from)});
                path.push_back({{l, to, true}, h_.rate(l, to)});
                continue;
            }
            const int out = h_.nics.of(a), in = h_.nics.of(b);
            path.push_back({{l, out, false}, h_.nics.rate(out)});
            path.push_back({{l, in, true}, h_.nics.rate(in)});
            if (!h_.nics.crosses_spine(out, in) || h_.nics.spine == 0) continue;
            path.push_back({{h_.depth(), h_.nics.rail_of(out), false}, h_.nics.spine});
            path.push_back({{h_.depth(), h_.nics.rail_of(in), true}, h_.nics.spine});
        }
        return path;
    }

    double part() { return static_cast<double>(dice_.below(1000)) / 1000; }
    bool stray() { return noise_ > 0 && dice_.below(20) == 0; }
    double slowness() { return 1 + 2 * part(); }

    const hierarchy& h_;
    test::dice dice_;
    double noise_;
    std::vector<int> place_;
};

}  // namespace terrace::detail::bench
