// Rounding errors of 64 ranks against a sum in double precision, in units of the last place of the result's type.

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <terrace/loopback.hpp>

#include "base/element_types.hpp"
#include "support/dice.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test {

namespace {

constexpr int ranks = 64;
constexpr std::size_t count = 2048;

// Returns the largest error of an element [ulp]. Inputs are between 0 and 1, so partial sums and errors only grow.
template <element T>
double worst_error(const std::vector<stage>& stages, const hierarchy& machine) {
    dice d(1);
    std::vector<std::vector<T>> inputs(ranks, std::vector<T>(count));
    std::vector<double> sums(count);
    for (std::vector<T>& input : inputs)
        for (std::size_t i = 0; i < count; ++i) {
            input[i] = static_cast<T>(static_cast<float>(d.below(1 << 20)) / (1 << 20));
            sums[i] += static_cast<double>(static_cast<float>(input[i]));
        }
    std::vector<T> result;
    loopback::run(plan_of(machine, stages), [&](communicator& comm) {
        std::vector<T> mine = inputs[static_cast<std::size_t>(comm.rank())];
        comm.allreduce(std::span(mine));
        if (comm.rank() == 0) result = mine;
    });
    double worst = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const double last_place = std::ldexp(1.0, std::ilogb(sums[i]) - fraction_bits<T>());
        worst = std::max(worst, std::abs(static_cast<double>(static_cast<float>(result[i])) - sums[i]) / last_place);
    }
    return worst;
}

struct errors {
    double float32, float16, bfloat16;
};

errors errors_of(const char* name, const hierarchy& machine, const std::vector<stage>& stages) {
    const errors e{worst_error<float>(stages, machine), worst_error<float16>(stages, machine),
                   worst_error<bfloat16>(stages, machine)};
    fmt::print("{:<24}{:>10.2f}{:>10.2f}{:>10.2f}\n", name, e.float32, e.float16, e.bfloat16);
    return e;
}

}  // namespace

TEST(rounding, errors_grow_with_the_sizes_of_the_stages) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{4, 4, 4}));
    const auto staged = [](const char* algorithm) {
        std::vector<stage> stages;
        for (int l = 0; l < 3; ++l) stages.push_back({{l}, 4, mode::scatter, algorithm});
        return stages;
    };
    fmt::print("worst error [ulp]          float32   float16  bfloat16\n");
    const errors ring = errors_of("ring of 64", machine, {{{0, 1, 2}, ranks, mode::scatter, "ring"}});
    const errors rings = errors_of("rings of 4, 4, 4", machine, staged("ring"));
    const errors directs = errors_of("direct 4, 4, 4", machine, staged("direct"));
    const errors direct = errors_of("direct 64", machine, {{{0, 1, 2}, ranks, mode::scatter, "direct"}});

    // Each rounding adds half a unit at most, since partial sums are no larger than the result. There is one rounding
    // per step of a ring, or per stage if one reduction takes all inputs.
    const double float_sums = 0.01;  // error of sums in float, in units of the short types
    EXPECT_LE(ring.float32, 63 * 0.5);
    EXPECT_LE(rings.float32, 9 * 0.5);
    for (const auto& [e, roundings] : {std::pair{rings, 9}, {directs, 3}, {direct, 1}}) {
        EXPECT_LE(e.float16, roundings * (0.5 + float_sums));
        EXPECT_LE(e.bfloat16, roundings * (0.5 + float_sums));
    }
    // The flat ring has larger errors.
    EXPECT_GT(ring.float16, rings.float16);
    EXPECT_GT(ring.bfloat16, rings.bfloat16);
    EXPECT_GT(ring.bfloat16, 3 * directs.bfloat16);
}

}  // namespace terrace::detail::test
