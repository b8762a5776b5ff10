// Gradients that are rounded on the wire: exact ones, error feedback, and marks of missing gradients, which stay exact.

#include <cmath>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

#include "loopback/gradients.hpp"
#include "plan/plan_access.hpp"
#include "plan/plan_yaml.hpp"

namespace terrace::detail::test::gradient_wire_test {

namespace {

constexpr std::int64_t length = 700;  // whole int8 blocks, and a part of one

void on_rounding_ranks(const hierarchy& machine, const std::vector<stage>& stages,
                       const std::function<void(communicator&)>& body) {
    options o;
    o.timeout = std::chrono::seconds(60);
    o.rounds_on_wire = true;
    plan_data r = data_of(plan_of_all_collectives(machine));
    r.rules[collective::allreduce].front() = data_of(plan_of(machine, stages)).rules.at(collective::allreduce).front();
    loopback::run(to_plan(finished(std::move(r))), body, o);
}

std::vector<stage> wired(const hierarchy& machine, wire_type inner, wire_type outer) {
    std::vector<wire_type> wires(static_cast<std::size_t>(machine.depth()), wire_type::exact);
    if (wires.size() > 2) wires[1] = inner;
    wires.back() = outer;
    return direct_stages(machine, wires);
}

float value_of(int rank, std::size_t i) {
    return std::sin(static_cast<float>(i * 7 + static_cast<std::size_t>(rank) * 3));
}

double mean_of(int ranks, std::size_t i) {
    double sum = 0;
    for (int r = 0; r < ranks; ++r) sum += static_cast<double>(value_of(r, i));
    return sum / ranks;
}

void fill(std::span<float> g, int rank, float factor = 1) {
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = factor * value_of(rank, i);
}

/// Reduces the same gradients in each iteration. Returns the largest difference between the sum of all results and the
/// exact sum, over both parameters, in units of one iteration's gradients.
double drift(const hierarchy& machine, const std::vector<stage>& stages, bool feedback, int iterations) {
    double worst = 0;
    std::mutex guard;
    on_rounding_ranks(machine, stages, [&](communicator& comm) {
        gradient_options o = caps(4 * length, 4 * length);
        o.error_feedback = feedback;
        gradient_reducer reducer(comm, {floats("a", length), floats("b", length)}, o);
        std::vector<double> sums(2 * length);
        for (int n = 0; n < iterations; ++n) {
            for (int p : {0, 1}) {  // buckets follow this order after the first iteration
                fill(reducer.gradient<float>(p), comm.rank());
                reducer.ready(p);
            }
            reducer.finish();
            for (int p : {0, 1})
                for (std::size_t i = 0; const float x : reducer.gradient<float>(p))
                    sums[static_cast<std::size_t>(p) * length + i++] += static_cast<double>(x);
        }
        EXPECT_EQ(reducer.rebuilds(), 1);
        const std::lock_guard lock(guard);
        for (std::size_t i = 0; i < sums.size(); ++i)
            worst = std::max(worst, std::abs(sums[i] - iterations * mean_of(comm.size(), i % length)));
    });
    return worst;
}

}  // namespace

// With feedback the sum of all results lacks only the rounding error of the last iteration.
TEST(error_feedback, keeps_what_is_rounded_away) {
    constexpr int iterations = 20;
    const hierarchy flat = machine_of(tree::uniform(std::vector{2, 3})),
                    racks = machine_of(tree::uniform(std::vector{2, 2, 2}));
    std::vector<stage> copies = wired(racks, wire_type::int8, wire_type::exact);
    copies.back().how = mode::replicate;
    const struct {
        const char* name;
        const hierarchy& machine;
        std::vector<stage> stages;
    } cases[] = {{"bfloat16", flat, wired(flat, wire_type::exact, wire_type::bfloat16)},
                 {"int8", flat, wired(flat, wire_type::exact, wire_type::int8)},
                 {"two levels", racks, wired(racks, wire_type::int8, wire_type::int8)},
                 {"two types", racks, wired(racks, wire_type::bfloat16, wire_type::int8)},
                 {"the inner level", racks, wired(racks, wire_type::int8, wire_type::exact)},
                 {"results of several owners", racks, copies}};
    for (const auto& each : cases) {
        const double lost = drift(each.machine, each.stages, false, iterations);
        const double kept = drift(each.machine, each.stages, true, iterations);
        EXPECT_GT(lost, 5 * kept) << each.name;
        EXPECT_LT(kept, 3.0 / 126) << each.name;  // results up to 1, rounded at most four times
    }
}

TEST(error_feedback, follows_gradients_of_other_weights_and_dropped_ones) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{2, 2}));
    on_rounding_ranks(machine, wired(machine, wire_type::exact, wire_type::int8), [](communicator& comm) {
        gradient_options o;
        o.error_feedback = o.weighted = true;
        gradient_reducer reducer(comm, {floats("a", length), floats("b", length)}, o);
        for (int n = 0; n < 6; ++n) {
            if (n % 3 == 1) reducer.drop(std::vector{0});
            reducer.set_weight(comm.rank() + 1);
            for (int p = 1; p >= (n % 3 == 1 ? 1 : 0); --p) {
                fill(reducer.gradient<float>(p), comm.rank());
                reducer.ready(p);
            }
            reducer.finish();
            for (std::size_t i = 0; i < length; ++i) {
                double expected = 0;
                for (int r = 0; r < 4; ++r) expected += (r + 1) * static_cast<double>(value_of(r, i)) / 10;
                EXPECT_NEAR(reducer.gradient<float>(1)[i], expected, 6.0 / 126) << n;
            }
        }
    });
}

TEST(error_feedback, needs_what_rounds) {
    on_ranks(2, [](communicator& comm) {
        gradient_options o;
        o.error_feedback = true;
        o.rounds_on_wire = false;
        EXPECT_NE(objection([&] { gradient_reducer(comm, {floats("a", 1)}, o); }).find("nothing is rounded then"),
                  std::string::npos);
    });
}

TEST(gradients_on_the_wire, are_rounded_unless_they_are_to_be_exact) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{2, 2}));
    for (const bool rounds : {true, false})
        on_rounding_ranks(machine, wired(machine, wire_type::exact, wire_type::bfloat16), [&](communicator& comm) {
            gradient_options o;
            o.rounds_on_wire = rounds;
            gradient_reducer reducer(comm, {floats("a", length)}, o);
            fill(reducer.gradient<float>(0), comm.rank());
            reducer.ready(0);
            reducer.finish();
            double worst = 0;
            for (std::size_t i = 0; i < length; ++i)
                worst = std::max(worst, std::abs(reducer.gradient<float>(0)[i] - mean_of(4, i)));
            if (rounds) {
                EXPECT_GT(worst, 1e-5);
                EXPECT_LT(worst, 2 * 0x1p-9);
            } else {
                EXPECT_LT(worst, 1e-6);
            }
        });
}

// Marks share an int8 block with the last gradients. Neither may vanish by rounding.
TEST(gradients_on_the_wire, do_not_touch_marks) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{2, 2}));
    for (const float factor : {1e-6f, 1e6f})
        on_rounding_ranks(machine, wired(machine, wire_type::exact, wire_type::int8), [&](communicator& comm) {
            gradient_reducer reducer(comm, {floats("a", 20), floats("b", 20)}, caps(0, 0));
            for (int n = 0; n < 2; ++n) {
                for (int p : {0, 1}) {
                    fill(reducer.gradient<float>(p), comm.rank(), factor);
                    reducer.ready(p);
                }
                reducer.finish();
                EXPECT_EQ(reducer.rebuilds(), 1);
                for (int p : {0, 1})
                    for (std::size_t i = 0; i < 20; ++i)
                        EXPECT_NEAR(reducer.gradient<float>(p)[i] / factor, mean_of(4, i), 3.0 / 126);
            }
            reducer.ready(0);
            if (comm.rank() != 2) reducer.ready(1);
            EXPECT_NE(objection([&] { reducer.finish(); }).find("rank 2 has no gradient of parameter 1"),
                      std::string::npos);
        });
}

}  // namespace terrace::detail::test::gradient_wire_test
