// Wire types: conversions of elements, and programs that round the data that they send.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/element_types.hpp"
#include "base/index.hpp"
#include "kernels/wire.hpp"
#include "plan/plan_yaml.hpp"
#include "planner/planner.hpp"
#include "planner/simulate/simulate.hpp"
#include "schedule/call_schedule.hpp"
#include "schedule/registry.hpp"
#include "schedule/verify.hpp"
#include "support/planner_machines.hpp"
#include "support/programs.hpp"
#include "support/refusal.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test::wire_types_test {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr std::array wire_types{wire_type::bfloat16, wire_type::float16, wire_type::int8};

// Returns the elements that arrive for these.
template <class T>
std::vector<T> carried(const std::vector<T>& given, wire_type as, vectors v = vectors::plain) {
    const auto count = static_cast<std::int64_t>(given.size());
    // The encoded data have an odd address. The bytes before and behind them must not change.
    std::vector<std::byte> wire(static_cast<std::size_t>(wire_bytes(as, count)) + 2, std::byte{0x5a});
    std::vector<T> made(given.size());
    encode(wire.data() + 1, given.data(), count, element_type_of<T>, as, v);
    decode(made.data(), wire.data() + 1, count, element_type_of<T>, as, v);
    EXPECT_EQ(wire.front(), std::byte{0x5a});
    EXPECT_EQ(wire.back(), std::byte{0x5a});
    return made;
}

std::vector<float> numbers(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> any(0, 1);
    std::vector<float> made(count);
    for (float& x : made) x = any(random) * std::exp2(static_cast<float>(random() % 8));
    return made;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// Returns a call whose stages send messages and round as these stages require.
program_of_all rounded_program(const hierarchy& machine, const std::vector<stage>& stages, collective what) {
    collective_call call{.what = what, .count = 600 * machine.ranks() + 3, .element = 4, .rounds_on_wire = true};
    if (row_of(what).blocks) call.blocks = equal_blocks(machine.ranks(), 300);
    const call_layout layout(machine, stages, call);
    program_of_all made{text(machine.shape) + ": " + describe(machine, stages), {}, {.blocks = call.blocks}};
    for (int r = 0; r < machine.ranks(); ++r) made.schedules.push_back(layout.schedule_of(r));
    return made;
}

std::int64_t count_of(const schedule& s, action what) {
    return std::count_if(s.instrs.begin(), s.instrs.end(), [&](const instr& i) { return i.what == what; });
}

}  // namespace

TEST(wire_types, have_names_and_lengths) {
    for (const wire_type t : wire_types) EXPECT_EQ(parse_wire_type(to_string(t)), t);
    EXPECT_EQ(parse_wire_type("auto"), wire_type::automatic);
    EXPECT_EQ(wire_bytes(wire_type::automatic, 256), 260);
    EXPECT_EQ(wire_error(wire_type::automatic), wire_error(wire_type::int8));
    EXPECT_EQ(parse_wire_type("int4"), std::nullopt);
    EXPECT_EQ(wire_bytes(wire_type::bfloat16, 257), 514);
    EXPECT_EQ(wire_bytes(wire_type::int8, 0), 0);
    EXPECT_EQ(wire_bytes(wire_type::int8, 256), 260);
    EXPECT_EQ(wire_bytes(wire_type::int8, 257), 265);
    EXPECT_TRUE(is_encoded(element_type::float32, wire_type::int8));
    EXPECT_TRUE(is_encoded(element_type::float16, wire_type::int8));
    EXPECT_FALSE(is_encoded(element_type::float16, wire_type::bfloat16));
    EXPECT_FALSE(is_encoded(element_type::int32, wire_type::int8));
    EXPECT_FALSE(is_encoded(element_type::complex64, wire_type::int8));
}

TEST(wire_types, of_16_bits_round_as_conversions_do) {
    std::vector<float> given = numbers(1003, 1);
    for (const float x : {0.0f, -0.0f, infinity, -infinity, 3.4e38f, 65504.0f, 65520.0f, 1e-40f, 1e-8f})
        given.push_back(x);
    const std::vector<float> as_bfloat16 = carried(given, wire_type::bfloat16),
                             as_float16 = carried(given, wire_type::float16);
    for (std::size_t i = 0; i < given.size(); ++i) {
        EXPECT_EQ(as_bfloat16[i], static_cast<float>(bfloat16(given[i]))) << given[i];
        EXPECT_EQ(as_float16[i], static_cast<float>(float16(given[i]))) << given[i];
    }
    EXPECT_TRUE(std::isnan(carried(std::vector{nan}, wire_type::bfloat16)[0]));
    EXPECT_TRUE(std::isnan(carried(std::vector{nan}, wire_type::float16)[0]));
    for (const wire_type t : {wire_type::bfloat16, wire_type::float16})
        EXPECT_TRUE(same_bits(carried(carried(given, t), t), carried(given, t)));
}

TEST(wire_types, int8_is_within_half_a_scale) {
    for (const float magnitude : {1.0f, 1e-30f, 1e30f, std::numeric_limits<float>::max() / 64}) {
        std::vector<float> given = numbers(1000, 2);
        const float factor = magnitude / 1024;
        for (float& x : given) x *= factor;
        const std::vector<float> got = carried(given, wire_type::int8);
        for (std::size_t begin = 0; begin < given.size(); begin += 256) {
            const std::size_t end = std::min(begin + 256, given.size());
            float largest = 0;
            for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(given[i]));
            for (std::size_t i = begin; i < end; ++i) EXPECT_LE(std::abs(got[i] - given[i]), largest / 126 * 0.50001f);
        }
    }
}

TEST(wire_types, int8_keeps_what_is_not_finite_and_zeros) {
    EXPECT_TRUE(same_bits(carried(std::vector<float>(300, 0), wire_type::int8), std::vector<float>(300, 0)));
    std::vector<float> given(256, 1);
    given[3] = nan, given[4] = infinity, given[5] = -infinity, given[6] = 2.52f;
    const std::vector<float> got = carried(given, wire_type::int8);
    EXPECT_TRUE(std::isnan(got[3]));
    EXPECT_EQ(got[4], infinity);
    EXPECT_EQ(got[5], -infinity);
    EXPECT_NEAR(got[0], 1, 0.01);
    EXPECT_NEAR(got[6], 2.52, 1e-6);
    // For the largest and the smallest elements, scales neither overflow nor become zero.
    const float largest = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
    EXPECT_NEAR(carried(std::vector{largest, -largest}, wire_type::int8)[1] / -largest, 1, 1e-6);
    EXPECT_LE(std::abs(carried(std::vector{least, 3 * least}, wire_type::int8)[1]), 1e-37f);
    const std::vector<float> only{nan, -infinity, 0};
    EXPECT_EQ(carried(only, wire_type::int8)[2], 0);
}

TEST(wire_types, say_what_they_round_away) {
    std::vector<float> given = numbers(700, 5);
    given[300] = infinity;
    given[301] = nan;
    for (const wire_type as : wire_types) {
        const std::vector<float> arrived = carried(given, as);
        std::vector<std::byte> wire(static_cast<std::size_t>(wire_bytes(as, 700)));
        encode(wire.data(), given.data(), 700, element_type::float32, as);
        std::vector<float> errors(700, 1);
        add_rounding_errors(errors.data(), given.data(), wire.data(), {250, 600}, 0.5, element_type::float32, as);
        for (std::size_t i = 0; i < errors.size(); ++i) {
            const bool some = i >= 250 && i < 600 && std::isfinite(given[i]);
            EXPECT_EQ(errors[i], some ? 1 + 0.5f * (given[i] - arrived[i]) : 1) << to_string(as) << ' ' << i;
        }
    }
}

TEST(wire_types, have_the_same_bits_on_all_processors) {
    for (const wire_type t : wire_types) {
        const std::vector<float> given = numbers(2000, 3);
        EXPECT_TRUE(same_bits(carried(given, t, vectors::plain), carried(given, t, widest_vectors()))) << to_string(t);
        std::vector<double> longer(given.begin(), given.end());
        const std::vector<double> of_double = carried(longer, t);
        const std::vector<float> of_float = carried(given, t);
        EXPECT_TRUE(
            std::equal(of_double.begin(), of_double.end(), of_float.begin(), [](double a, float b) { return a == b; }));
    }
    std::vector<bfloat16> shorter;
    for (const float x : numbers(500, 4)) shorter.push_back(bfloat16(x));
    const std::vector<bfloat16> got = carried(shorter, wire_type::int8);
    for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(static_cast<float>(got[i]), static_cast<float>(shorter[i]), 4);
}

// All ranks get the same bits, for any levels that round.
TEST(wire_types, programs_are_proved) {
    for (const std::vector<int>& sizes : {std::vector{2}, {5}, {2, 3}, {4, 2, 2}, {3, 1, 2}})
        for (const wire_type t : wire_types)
            for (std::size_t from = 0; from < sizes.size(); ++from)
                for (const collective what : {collective::allreduce, collective::reduce_scatter}) {
                    const hierarchy machine = machine_of(tree::uniform(sizes));
                    std::vector<wire_type> wires(sizes.size(), wire_type::exact);
                    std::fill(wires.begin() + static_cast<std::ptrdiff_t>(from), wires.end(), t);
                    const program_of_all p = rounded_program(machine, direct_stages(machine, wires), what);
                    const auto found = find_fault(p.schedules, p.of);
                    EXPECT_FALSE(found) << p.name << ", " << to_string(what) << ": " << *found;
                }
    const hierarchy uneven = machine_of(tree({{3, 1, 2}, {3}}));
    const program_of_all p =
        rounded_program(uneven, direct_stages(uneven, {wire_type::exact, wire_type::int8}), collective::allreduce);
    EXPECT_EQ(find_fault(p.schedules, p.of), std::nullopt);
}

// A contribution is rounded once for its owner. The owner of a result keeps the rounded result that the others get.
TEST(wire_types, convert_as_little_as_possible) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{4}));
    const program_of_all p =
        rounded_program(machine, direct_stages(machine, {wire_type::bfloat16}), collective::allreduce);
    for (const schedule& s : p.schedules) {
        EXPECT_EQ(count_of(s, action::encode), 3 + 1);
        EXPECT_EQ(count_of(s, action::decode), 3 + 3 + 1);
        for (const instr& i : s.instrs)
            if (i.what == action::send) {
                EXPECT_EQ(i.wire, wire_type::bfloat16);
            }
    }
}

TEST(wire_types, faults_are_found) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{3}));
    const program_of_all good =
        rounded_program(machine, direct_stages(machine, {wire_type::bfloat16}), collective::allreduce);
    const auto expect = [&](const std::string& what, auto&& change) {
        program_of_all bad = good;
        change(bad.schedules[1]);
        const auto found = find_fault(bad.schedules, bad.of);
        ASSERT_TRUE(found) << what;
        EXPECT_NE(found->find(what), std::string::npos) << *found;
    };
    const auto nth = [](schedule& s, action what, int n) -> instr& {
        for (instr& i : s.instrs)
            if (i.what == what && n-- == 0) return i;
        throw std::logic_error("no such instruction");
    };
    // The owner keeps the sum without rounding.
    expect("differs from rank", [&](schedule& s) {
        for (instr& i : s.instrs)
            if (i.what == action::decode && s.phases[i.phase].down && i.dst.part == s.owned.front())
                i = {.what = action::copy,
                     .phase = i.phase,
                     .step = i.step,
                     .dst = i.dst,
                     .src = i.dst,
                     .first_successor = i.first_successor,
                     .successors = i.successors,
                     .waits = i.waits};
    });
    expect("sends it as bfloat16", [&](schedule& s) { nth(s, action::recv, 0).wire = wire_type::float16; });
    expect("converts to no wire type", [&](schedule& s) { nth(s, action::encode, 0).wire = wire_type::exact; });
    expect("is in the wire type", [&](schedule& s) { nth(s, action::send, 0).wire = wire_type::exact; });
    expect("does not begin with a block", [&](schedule& s) { ++nth(s, action::recv, 0).dst.part.begin; });
}

TEST(wire_types, are_refused_where_they_would_not_agree) {
    const hierarchy uneven = machine_of(tree({{3, 1, 2}, {3}}));
    const auto fault = [](const hierarchy& machine, const std::vector<stage>& stages) -> std::string {
        return refusal_of<plan_error>([&] { compose(machine, stages, machine.ranks(), 1); });
    };
    EXPECT_NE(fault(uneven, direct_stages(uneven, {wire_type::int8, wire_type::exact})).find("groups of one size"),
              std::string::npos);
    const hierarchy even = machine_of(tree::uniform(std::vector{2, 2}));
    std::vector<stage> stages = direct_stages(even, {wire_type::exact, wire_type::int8});
    EXPECT_EQ(fault(even, stages), "accepted");
    stages[1].algorithm = "ring";
    EXPECT_NE(fault(even, stages).find("sends straight to the owner"), std::string::npos);
    stages[1] = {.levels = {1}, .group = 2, .how = mode::root, .algorithm = "direct", .wire = wire_type::int8};
    EXPECT_NE(fault(even, stages).find("requires mode scatter"), std::string::npos);
    const hierarchy deep = machine_of(tree::uniform(std::vector{2, 2, 2}));
    stages = direct_stages(deep, {wire_type::exact, wire_type::int8, wire_type::exact});
    EXPECT_EQ(fault(deep, stages), "accepted");
    stages[0].shares = {1, 1, 1, 1, 1, 1, 0, 1};
    EXPECT_NE(fault(deep, stages).find("equal shares"), std::string::npos);
}

// A level's wire type is used in stages, and is the same after the plan is written and read.
TEST(wire_types, are_planned_where_they_are_named) {
    hierarchy machine = two_nodes();
    const auto rounds = [](const rule& r) {
        return std::ranges::any_of(r.stages, [](const stage& s) { return s.wire != wire_type::exact; });
    };
    const plan_data exactly = make_plan("two", machine);
    EXPECT_FALSE(rounds(exactly.choose(collective::allreduce, 32 << 20)));
    machine.levels.back().wire = wire_type::bfloat16;
    const plan_data made = make_plan("two", machine);
    for (const collective what : {collective::allreduce, collective::reduce_scatter}) {
        const rule &shorter = made.choose(what, 32 << 20), &plain = exactly.choose(what, 32 << 20);
        EXPECT_TRUE(rounds(shorter));
        EXPECT_NEAR(plain.predicted / shorter.predicted, 2, 0.1);
        EXPECT_NEAR(plain.limit / shorter.limit, 2, 1e-6);
        const double predicted = predict(machine, shorter.stages, 32 << 20, shorter.lanes, shorter.chunk, what).time;
        EXPECT_NEAR(simulate(machine, shorter, what, 32 << 20).time / predicted, 1, 0.05);
    }
    EXPECT_FALSE(rounds(made.choose(collective::allgather, 32 << 20)));
    EXPECT_FALSE(rounds(made.choose(collective::reduce, 32 << 20)));
    const plan_data read = parse_plan(made.text, "plan.yaml");
    EXPECT_EQ(read.text, made.text);
    EXPECT_EQ(read.choose(collective::allreduce, 32 << 20).stages, made.choose(collective::allreduce, 32 << 20).stages);
    EXPECT_EQ(read.machine.levels.back().wire, wire_type::bfloat16);
    std::string wrong = made.text;
    wrong.replace(wrong.rfind("wire: bfloat16"), 14, "wire: bfloat17");
    EXPECT_THROW(parse_plan(wrong, "plan.yaml"), input_error);
    // Baselines are exact.
    for (const rule& r : rules_for(machine, "staged", collective::allreduce)) EXPECT_FALSE(rounds(r));
}

}  // namespace terrace::detail::test::wire_types_test
