// options::reproducible: results have the same bits with any plan, any stages of the transport, and joined vectors.

#include <atomic>
#include <complex>
#include <cstring>
#include <optional>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <terrace/loopback.hpp>
#include <terrace/reproducible.hpp>

#include "base/element_types.hpp"
#include "kernels/reduce.hpp"
#include "schedule/tree_stages.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test::reproducible_test {

namespace {

constexpr int ranks = 16;
using bytes = std::vector<std::byte>;

double factor_of(int rank) { return 1 / (3.0 + rank); }

// Writes numbers whose sums and products are rounded.
template <class T>
void write_numbers(bytes& to, std::mt19937_64& random) {
    std::uniform_real_distribution<double> any(0.5, 2);
    for (std::size_t i = 0; i < to.size(); i += sizeof(T)) {
        const T x = static_cast<T>(static_cast<accumulator_t<T>>(random() % 2 == 0 ? any(random) : -any(random)));
        std::memcpy(to.data() + i, &x, sizeof x);
    }
}

bytes input_of(int rank, element_type type, std::int64_t count) {
    bytes made(static_cast<std::size_t>(count) * size_of(type));
    std::mt19937_64 random(static_cast<std::uint64_t>(rank) * 100 + static_cast<std::uint64_t>(type));
    with_type(type, [&]<class T>(std::type_identity<T>) { write_numbers<part_t<T>>(made, random); });
    return made;
}

bytes expected(element_type type, reduce_op op, std::int64_t count) {
    std::vector<bytes> inputs;
    std::vector<const void*> at;
    for (int r = 0; r < ranks; ++r) {
        inputs.push_back(input_of(r, type, count));
        if (op == reduce_op::premul_sum)
            multiply(inputs.back().data(), inputs.back().data(), count, type, factor_of(r));
    }
    for (const bytes& each : inputs) at.push_back(each.data());
    bytes result(inputs.front().size());
    reduce_serially(at, result.data(), count, type, op);
    return result;
}

struct pair {
    element_type type;
    reduce_op op;
};

std::vector<pair> rounded_pairs() {
    std::vector<pair> pairs;
    for (const element_type type : all_element_types)
        for (const reduce_op op : ops_of(type))
            if (rounds(type, op)) pairs.push_back({type, op});
    return pairs;
}

struct setting {
    std::string name;
    plan p;
    mode how;  // of the outermost stage
};

// @param by the algorithm of each level
setting setting_of(const tree& shape, const std::vector<std::string>& by, mode how, int lanes = 1,
                   std::int64_t chunk = 0, std::optional<mode> outermost = {}) {
    const hierarchy machine = machine_of(shape);
    std::vector<stage> stages;
    for (int l = 0; l < machine.depth(); ++l)
        stages.push_back(run_by({{l}, shape.uniform_size(l).value_or(0), how}, by[static_cast<std::size_t>(l)]));
    stages.back().how = outermost.value_or(how);
    return {fmt::format("{}: {}", text(shape), terrace::detail::describe(machine, stages)),
            plan_of(machine, stages, lanes, chunk), stages.back().how};
}

const tree uneven_nodes(std::vector<std::vector<int>>{{7, 9}, {2}}),
    uneven_racks(std::vector<std::vector<int>>{{5, 4, 3, 4}, {3, 1}, {2}});

std::vector<setting> settings() {
    return {setting_of(tree::uniform(std::vector{16}), {"ring"}, mode::scatter),
            setting_of(tree::uniform(std::vector{16}), {"shared_memory"}, mode::scatter),
            setting_of(tree::uniform(std::vector{16}), {"tree"}, mode::root, 2, 512),
            setting_of(tree::uniform(std::vector{8, 2}), {"shared_memory", "ring"}, mode::scatter, 2, 1024),
            setting_of(tree::uniform(std::vector{4, 4}), {"direct", "halving"}, mode::scatter, 3, 512),
            setting_of(tree::uniform(std::vector{4, 4}), {"shared_memory", "doubling"}, mode::replicate),
            setting_of(tree::uniform(std::vector{2, 2, 4}), {"ring", "shared_memory", "ring"}, mode::scatter),
            setting_of(uneven_nodes, {"shared_memory", "ring"}, mode::scatter, 2, 1024),
            setting_of(uneven_racks, {"shared_memory", "ring", "ring"}, mode::scatter),
            setting_of(uneven_racks, {"tree", "tree", "tree"}, mode::root)};
}

options reproducible() {
    options o;
    o.reproducible = true;
    return o;
}

// Expects each result to have the bits of a serial reduction of all vectors by the tree.
void expect_bits(const setting& s, const std::vector<pair>& pairs, std::int64_t block) {
    const std::int64_t count = ranks * block;
    std::vector<bytes> right;
    for (const pair& p : pairs) right.push_back(expected(p.type, p.op, count));
    std::atomic<int> wrong{0}, results{0};
    loopback::run(
        s.p,
        [&](communicator& comm) {
            const int me = comm.rank();
            for (std::size_t n = 0; n < pairs.size(); ++n) {
                const element_type type = pairs[n].type;
                const reduce_op op = pairs[n].op;
                const reduction by = op == reduce_op::premul_sum ? premul_sum(factor_of(me)) : reduction(op);
                const bytes mine = input_of(me, type, count);
                const auto expect = [&](const bytes& result, std::int64_t first, std::int64_t elements) {
                    const std::size_t size = size_of(type), begin = static_cast<std::size_t>(first) * size;
                    wrong += std::memcmp(result.data(), right[n].data() + begin,
                                         static_cast<std::size_t>(elements) * size) != 0;
                    ++results;
                };
                bytes in_place = mine, result(mine.size());
                comm.allreduce(in_place.data(), in_place.data(), count, type, by);
                expect(in_place, 0, count);
                if (s.how == mode::root) {
                    comm.reduce(mine.data(), result.data(), count, type, 5, by);
                    if (me == 5) expect(result, 0, count);
                }
                if (n % 5 == 0) {  // vectors that are joined, or cut in two, have the same bits
                    const std::size_t half = static_cast<std::size_t>(count / 2) * size_of(type);
                    comm.allreduce(mine.data(), result.data(), count / 2, type, by);
                    comm.allreduce(mine.data() + half, result.data() + half, count - count / 2, type, by);
                    expect(result, 0, count);
                }
                if (s.how == mode::scatter) {
                    comm.reduce_scatter(mine.data(), result.data(), block, type, by);
                    expect(result, me * block, block);
                }
            }
        },
        reproducible());
    EXPECT_EQ(wrong, 0) << s.name;
    EXPECT_GE(results, ranks * static_cast<int>(pairs.size())) << s.name;
}

}  // namespace

TEST(reproducible, bits_do_not_depend_on_the_plan) {
    const std::vector<pair> pairs = rounded_pairs();
    ASSERT_EQ(pairs.size(), 6u * 4);
    for (const setting& s : settings()) expect_bits(s, pairs, 37);
}

// Domains with unequal numbers of partial results, and vectors long enough to balance the links between them.
TEST(reproducible, bits_do_not_depend_on_who_combines_them) {
    const std::vector<pair> sums{{element_type::float32, reduce_op::sum}, {element_type::bfloat16, reduce_op::avg}};
    const std::vector<std::string> direct(3, "direct");
    for (const tree& shape : {uneven_nodes, uneven_racks}) {
        expect_bits(setting_of(shape, direct, mode::scatter), sums, least_moved);
        expect_bits(setting_of(shape, direct, mode::scatter, 1, 0, mode::replicate), sums, least_moved);
        expect_bits(setting_of(shape, direct, mode::root), sums, least_moved);
    }
}

// Plans run unchanged if nothing is rounded, or without the option.
TEST(reproducible, is_for_rounded_reductions) {
    for (const pair& p : rounded_pairs()) EXPECT_FALSE(p.op == reduce_op::max || p.type == element_type::int32);
    const setting ring = settings().front();
    std::atomic<int> differ{0};
    loopback::run(ring.p, [&](communicator& comm) {
        bytes data = input_of(comm.rank(), element_type::bfloat16, 592);
        comm.allreduce(data.data(), data.data(), 592, element_type::bfloat16, reduce_op::sum);
        differ += data != expected(element_type::bfloat16, reduce_op::sum, 592);
    });
    EXPECT_EQ(differ, ranks);  // else the tests above would prove nothing
}

TEST(reproducible, a_serial_reduction_refuses_what_is_not_defined) {
    const float x = 1;
    float y = 0;
    const void* one[] = {&x};
    reduce_serially(one, &y, 1, element_type::float32);
    EXPECT_EQ(y, 1.0f);
    EXPECT_THROW(reduce_serially(one, &y, 1, element_type::float32, reduce_op::band), usage_error);
}

}  // namespace terrace::detail::test::reproducible_test
