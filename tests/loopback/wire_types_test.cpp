// options::rounds_on_wire: results within the wire type's error, equal bits on all ranks, and refused calls.

#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <terrace/error.hpp>
#include <terrace/loopback.hpp>

#include "api/environment.hpp"
#include "support/dice.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test::wire_types_test {

namespace {

// Returns stages that round only on the outermost links.
std::vector<stage> stages_of(const hierarchy& machine, wire_type outermost) {
    std::vector<wire_type> wires(static_cast<std::size_t>(machine.depth()), wire_type::exact);
    wires.back() = outermost;
    return direct_stages(machine, wires);
}

options rounding() {
    options o;
    o.rounds_on_wire = true;
    return o;
}

template <class T>
std::vector<T> input_of(int rank, std::int64_t count) {
    dice d(static_cast<std::uint64_t>(rank) + 7);
    std::vector<T> made(static_cast<std::size_t>(count));
    for (T& x : made) x = static_cast<T>(static_cast<double>(d.below(2'000'001)) / 1e6 - 1);
    return made;
}

// Returns half a step of the wire type for magnitudes up to `largest`.
double step_of(wire_type t, double largest) {
    return largest * (t == wire_type::bfloat16 ? 0x1p-9 : t == wire_type::float16 ? 0x1p-11 : 0.5 / 126) * 1.0001;
}

// Returns the largest error: one rounding for each domain but the owner's, and one of the sum.
double bound_of(wire_type t, int domains, double of_domain, double of_sum) {
    return (domains - 1) * step_of(t, of_domain) + step_of(t, of_sum) + 1e-5;
}

template <class T>
void expect_near(const hierarchy& machine, wire_type t, std::int64_t count, int lanes, std::int64_t chunk) {
    const int ranks = machine.ranks(), domains = machine.shape.children(machine.depth() - 1, 0);
    std::vector<double> sum(static_cast<std::size_t>(count));
    for (int r = 0; r < ranks; ++r)
        for (std::int64_t i = 0; const T x : input_of<T>(r, count))
            sum[static_cast<std::size_t>(i++)] += static_cast<double>(x);
    const double bound = bound_of(t, domains, ranks, ranks);
    std::mutex guard;
    std::vector<T> first;
    loopback::run(
        plan_of(machine, stages_of(machine, t), lanes, chunk),
        [&](communicator& comm) {
            std::vector<T> data = input_of<T>(comm.rank(), count), own(data);
            comm.allreduce(data);
            std::vector<T> exactly = own;
            comm.allreduce(exactly, exact(reduce_op::sum));
            const std::lock_guard lock(guard);
            if (first.empty()) first = data;
            EXPECT_EQ(std::memcmp(first.data(), data.data(), data.size() * sizeof(T)), 0) << "rank " << comm.rank();
            double worst = 0, unrounded = 0;
            for (std::size_t i = 0; i < data.size(); ++i) {
                worst = std::max(worst, std::abs(static_cast<double>(data[i]) - sum[i]));
                unrounded = std::max(unrounded, std::abs(static_cast<double>(exactly[i]) - sum[i]));
            }
            EXPECT_LE(worst, bound) << text(machine.shape) << ' ' << to_string(t);
            EXPECT_GT(worst, 1e-5) << "nothing was rounded";
            EXPECT_LE(unrounded, 1e-5) << "exact() rounded";
        },
        rounding());
}

}  // namespace

TEST(wire_types, round_within_their_error) {
    for (const wire_type t : {wire_type::bfloat16, wire_type::float16, wire_type::int8})
        for (const hierarchy& machine :
             {machine_of(tree::uniform(std::vector{2})), machine_of(tree::uniform(std::vector{2, 3})),
              machine_of(tree({{3, 1, 2}, {3}}))}) {
            expect_near<float>(machine, t, 1009, 1, 0);
            expect_near<float>(machine, t, 40009, 2, 16384);
            expect_near<double>(machine, t, 1009, 1, 0);
        }
}

// Integers are exact in bfloat16 up to 256.
TEST(wire_types, averages_and_scatters_are_right) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{2, 2}));
    loopback::run(
        plan_of(machine, stages_of(machine, wire_type::bfloat16)),
        [](communicator& comm) {
            std::vector<float> data(4 * 300), own(300);
            for (std::size_t i = 0; i < data.size(); ++i)
                data[i] = static_cast<float>(i % 16) * static_cast<float>(comm.rank() + 1);
            comm.reduce_scatter(data, own, reduce_op::avg);
            for (std::size_t i = 0; i < own.size(); ++i)
                EXPECT_EQ(own[i], 2.5f * static_cast<float>((static_cast<std::size_t>(comm.rank()) * 300 + i) % 16));
            comm.allreduce(data, premul_sum(2));
            for (std::size_t i = 0; i < data.size(); ++i) EXPECT_EQ(data[i], 20 * static_cast<float>(i % 16)) << i;
        },
        rounding());
}

// Errors on one level: int8 0.0080, bfloat16 0.0039. In int8 a large element makes small ones of its block zero.
TEST(wire_types, give_way_where_they_exceed_the_limit) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{2, 2}));
    const auto small_beside_large = [](int rank) {
        std::vector<float> made = input_of<float>(rank, 4000);
        for (std::size_t i = 0; i < made.size(); ++i) made[i] = i % 100 == 0 ? 1.0f : made[i] / 1000;
        return made;
    };
    std::vector<double> sums(4000);
    for (int r = 0; r < 4; ++r)
        for (std::size_t i = 0; const float x : small_beside_large(r)) sums[i++] += static_cast<double>(x);
    const auto error_of = [&](wire_type t, double limit) {
        options o = rounding();
        o.wire_error = limit;
        double worst = 0;  // of small elements
        std::mutex guard;
        loopback::run(
            plan_of(machine, stages_of(machine, t)),
            [&](communicator& comm) {
                std::vector<float> data = small_beside_large(comm.rank());
                comm.allreduce(data);
                const std::lock_guard lock(guard);
                for (std::size_t i = 0; i < data.size(); ++i)
                    if (i % 100 != 0) worst = std::max(worst, std::abs(static_cast<double>(data[i]) - sums[i]));
            },
            o);
        return worst;
    };
    for (const wire_type t : {wire_type::int8, wire_type::automatic}) {
        EXPECT_GT(error_of(t, 0.01), 1e-3);
        const double of_bfloat16 = error_of(t, 0.005);
        EXPECT_LT(of_bfloat16, 1e-4);
        EXPECT_GT(of_bfloat16, 1e-7);
        EXPECT_LT(error_of(t, 0.001), 1e-8);
        EXPECT_THROW(error_of(t, -1), usage_error);
    }
    EXPECT_THROW(error_of(wire_type::automatic, 0), usage_error);
}

TEST(wire_types, are_asked_for_by_the_environment) {
    std::vector<std::string> warnings;
    const auto options_by = [&](const std::string& value) {
        return options_from(std::vector<std::string>{"TERRACE_WIRE=" + value}, warnings);
    };
    EXPECT_TRUE(options_by("on").rounds_on_wire);
    EXPECT_EQ(options_by("on").wire_error, 0);
    EXPECT_FALSE(options_by("off").rounds_on_wire);
    EXPECT_TRUE(options_by("0.01").rounds_on_wire);
    EXPECT_EQ(options_by("0.01").wire_error, 0.01);
    for (const char* wrong : {"0", "-1", "nan", "0.01x", "int8"}) EXPECT_THROW(options_by(wrong), input_error) << wrong;
}

TEST(wire_types, carry_what_is_not_finite) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{4}));
    for (const wire_type t : {wire_type::bfloat16, wire_type::float16, wire_type::int8})
        loopback::run(
            plan_of(machine, stages_of(machine, t)),
            [](communicator& comm) {
                std::vector<float> data(1000, 1);
                if (comm.rank() == 2) {
                    for (std::size_t i = 0; i < 1000; i += 100) data[i] = std::numeric_limits<float>::quiet_NaN();
                    for (std::size_t i = 1; i < 1000; i += 100) data[i] = std::numeric_limits<float>::infinity();
                }
                comm.allreduce(data);
                for (std::size_t i = 0; i < 1000; ++i) {
                    const float infinity = std::numeric_limits<float>::infinity();
                    const bool right = i % 100 == 0   ? std::isnan(data[i])
                                       : i % 100 == 1 ? data[i] == infinity
                                                      : std::abs(data[i] - 4) < 0.05f;
                    EXPECT_TRUE(right) << i << ": " << data[i];
                }
            },
            rounding());
}

// All ranks get the same error, and go on.
TEST(wire_types, are_refused_where_nothing_can_be_rounded) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{2}));
    const plan p = plan_of(machine, stages_of(machine, wire_type::int8));
    loopback::run(
        p,
        [](communicator& comm) {
            std::vector<int> integers(10, 1);
            std::vector<float> floats(10, 1);
            EXPECT_THROW(comm.allreduce(integers), usage_error);
            EXPECT_THROW(comm.allreduce(floats, reduce_op::max), usage_error);
            comm.allreduce(integers, exact(reduce_op::sum));
            EXPECT_EQ(integers[3], 2);
            comm.allreduce(floats, exact(reduce_op::max));
            comm.broadcast(std::span(integers), 1);
            // These elements would be longer on the wire than in memory.
            std::vector<bfloat16> shorts(10, bfloat16(1.0f));
            comm.allreduce(shorts);
            EXPECT_EQ(static_cast<float>(shorts[0]), 2);
        },
        rounding());
    options both = rounding();
    both.reproducible = true;
    EXPECT_THROW(loopback::run(
                     p, [](communicator&) {}, both),
                 usage_error);
    // Without the option the plan's wire types have no effect.
    loopback::run(p, [](communicator& comm) {
        std::vector<float> floats{1.0f / 3, 1.0f / 7};
        comm.allreduce(floats);
        EXPECT_EQ(floats[0], 2.0f / 3);
    });
}

}  // namespace terrace::detail::test::wire_types_test
