// The performance model of the BlueConnect paper (Cho et al., MLSys 2019), its equations 1 to 10 as printed, compared
// with Terrace's model. The paper has no processor time, so here Terrace's has no overhead, and fast reductions.
//
// a: start-up, W = w[0], w[1] ...: rates of links, innermost first, p[i]: children of level i, N: bytes.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "planner/planner.hpp"

namespace terrace::detail::paper_equations_test {
namespace {

using counts = std::vector<int>;
using rates = std::vector<double>;

constexpr double a = 5e-6;
constexpr std::int64_t bytes = 24 << 20;
constexpr double N = static_cast<double>(bytes);

// ---- as printed ----

double ring(int p, double n, double w) { return (p - 1) * a + (p - 1.0) / p * n / w; }          // 1
double halving(int p, double n, double w) { return std::log2(p) * a + (p - 1.0) / p * n / w; }  // 2
bool is_power_of_two(int p) { return (p & (p - 1)) == 0; }
double better(int p, double n, double w) { return is_power_of_two(p) ? halving(p, n, w) : ring(p, n, w); }  // 3
double broadcast(int p, double n, double w) { return halving(p, n, w) + ring(p, n, w); }                    // 4
double least(const rates& w) { return *std::ranges::min_element(w); }
int product(const counts& p) { return std::accumulate(p.begin(), p.end(), 1, std::multiplies{}); }

double flat_ring(const counts& p, const rates& w) {  // 5
    const int P = product(p);
    return 2 * (P - 1) * (a + N / P / least(w));
}

double flat_ring_by_1(const counts& p, const rates& w) { return 2 * ring(product(p), N, least(w)); }  // 6

double two_level(const counts& p, const rates& w) {  // 7
    return 2 * halving(p[0], N, w[0]) + 2 * ring(p[0], N, w[0]) + 2 * better(product(p) / p[0], N, least(w));
}

// Returns the product of the first i.
double before(const counts& p, std::size_t i) {
    return product({p.begin(), p.begin() + static_cast<std::ptrdiff_t>(i)});
}

// own = true: the paper's written-out form. The compact form omits the stage's own rate (j < i; w_0 for the first).
double tree_stages(const counts& p, const rates& w, bool own) {  // 9
    double sum = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
        double rate = w[0];
        for (std::size_t j = 0; j < i + own; ++j) rate = std::min(rate, w[j] / before(p, j));
        sum += 2 * better(p[i], N / before(p, i), rate);
    }
    return sum;
}

double torus_stages(const counts& p, const rates& w, bool own) {  // 10
    double sum = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
        double rate = w[0];
        for (std::size_t j = 1; j < i + own; ++j) rate = std::min(rate, w[j] / p[0]);
        sum += 2 * better(p[i], N / before(p, i), rate);
    }
    return sum;
}

// ---- ours ----

hierarchy machine(const counts& p, const rates& w, bool torus = false) {
    hierarchy h{{}, tree::uniform(p), {1e18}};
    for (std::size_t l = 0; l < p.size(); ++l) {
        const bool dimension = torus && l > 0;
        // Each node of a child has a link to the next child, one in each direction.
        const double links = dimension ? before(p, l) / p[0] * (p[l] > 2 ? 2 : 1) : 1;
        h.levels.push_back({.name = fmt::format("l{}", l),
                            .medium = l == 0 ? fabric::pcie : fabric::infiniband,
                            .bandwidth = w[l] * links,
                            .latency = a,
                            .overhead = 0,
                            .overhead_assumed = false});
        h.levels.back().ring = dimension;
    }
    return h;
}

stage over(counts levels, int group, mode how, const char* algorithm) {
    return {std::move(levels), group, how, algorithm};
}

double time(const hierarchy& h, const std::vector<stage>& stages) { return predict(h, stages, bytes, 1, 0).time; }

double time_by_levels(const hierarchy& h) {
    std::vector<stage> stages;
    for (int l = 0; l < h.depth(); ++l) {
        const int p = h.shape.children(l, 0);
        stages.push_back(over({l}, p, mode::scatter, is_power_of_two(p) ? "halving" : "ring"));
    }
    return time(h, stages);
}

double time_of_flat_ring(const hierarchy& h) {
    counts all(static_cast<std::size_t>(h.depth()));
    std::iota(all.begin(), all.end(), 0);
    return time(h, {over(all, h.ranks(), mode::scatter, "ring")});
}

constexpr double close = 1e-5;  // relative

TEST(paper, equations_5_and_6_are_one) {
    for (const counts& p : {counts{4, 2}, {3, 5}, {4, 3, 2}}) {
        const rates w(p.size(), 1e9);
        EXPECT_NEAR(flat_ring(p, w) / flat_ring_by_1(p, w), 1, close);
    }
}

// With equal links Terrace's model gives equation 6. With different links its steps do not wait for the slowest hop,
// but the busiest link still passes all data.
TEST(paper, equation_6_of_a_flat_ring) {
    for (const counts& p : {counts{4, 2}, {3, 5}, {4, 3, 2}}) {
        const rates alike(p.size(), 1e9);
        EXPECT_NEAR(time_of_flat_ring(machine(p, alike)) / flat_ring_by_1(p, alike), 1, close);
        rates w{8e9, 1e9, 2e9};
        w.resize(p.size());
        const double ours = time_of_flat_ring(machine(p, w)), P = product(p);
        EXPECT_LE(ours, flat_ring_by_1(p, w) * (1 + close));
        EXPECT_GE(ours, 2 * (P - 1) / P * N / least(w));
    }
}

// In a node the paper reduces by a reduce-scatter and a gather, and Terrace by one stage: a binomial tree, or a direct
// exchange with the root. The stages between nodes are equal.
TEST(paper, equation_7_of_two_levels) {
    for (const counts& p : {counts{2, 8}, {4, 3}, {8, 4}}) {
        const rates w{16e9, 1e9};
        const hierarchy h = machine(p, w);
        const auto ours = [&](const char* inside) {
            return time(h, {over({0}, p[0], mode::root, inside),
                            over({1}, p[1], mode::scatter, is_power_of_two(p[1]) ? "halving" : "ring")});
        };
        const double among_nodes = 2 * better(p[1], N, least(w));
        const double paper_inside = two_level(p, w) - among_nodes;
        EXPECT_NEAR(paper_inside, 2 * broadcast(p[0], N, w[0]), close * paper_inside);
        const double depth = std::log2(p[0]);
        EXPECT_NEAR(ours("tree") - among_nodes, 2 * depth * (a + N / w[0]), close * ours("tree"));
        EXPECT_NEAR(ours("direct") - among_nodes, 2 * (a + (p[0] - 1) * N / w[0]), close * ours("direct"));
    }
}

TEST(paper, equation_9_of_trees) {
    struct tree_case {
        counts p;
        rates w;
    };
    for (const auto& [p, w] : {tree_case{{4, 8}, {20e9, 5e9}}, tree_case{{4, 3, 2}, {20e9, 5e9, 2e9}},
                               tree_case{{2, 2, 2, 3}, {9e9, 9e9, 9e9, 1e9}}, tree_case{{6, 4}, {1e9, 50e9}}}) {
        EXPECT_NEAR(time_by_levels(machine(p, w)) / tree_stages(p, w, true), 1, close);
        EXPECT_LE(tree_stages(p, w, false), tree_stages(p, w, true)) << "the compact form leaves links out";
    }
    EXPECT_LT(tree_stages({4, 8}, {20e9, 1e9}, false), 0.9 * tree_stages({4, 8}, {20e9, 1e9}, true));
}

// Only odd rings: for other sizes the paper uses halving, and Terrace also counts that its messages take several hops.
// The models are equal if all dimensions have equal links. Otherwise the paper uses the slowest of the dimensions so
// far, and Terrace the stage's own dimension.
TEST(paper, equation_10_of_tori) {
    for (const counts& p : {counts{2, 5, 3}, {4, 3, 7, 3}}) {
        rates w(p.size(), 3e9);
        w[0] = 40e9;
        EXPECT_NEAR(time_by_levels(machine(p, w, true)) / torus_stages(p, w, true), 1, close);
        w[1] = 1e9;
        EXPECT_LT(time_by_levels(machine(p, w, true)), torus_stages(p, w, true));
        std::swap(w[1], w.back());
        EXPECT_NEAR(time_by_levels(machine(p, w, true)) / torus_stages(p, w, true), 1, close);
    }
}

// The paper's conclusion: equation 7 has fewer start-ups than 6, and 9 fewer than 7. For large vectors 9 moves the
// least data over slow links.
TEST(paper, the_order_of_the_three) {
    const counts p{8, 16};
    const rates w{20e9, 2e9};
    EXPECT_LT(tree_stages(p, w, true), two_level(p, w));
    EXPECT_LT(tree_stages(p, w, true), flat_ring_by_1(p, w));
}

}  // namespace
}  // namespace terrace::detail::paper_equations_test
