// Sparse gradients: rows of an embedding.

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "base/element_types.hpp"
#include "base/index.hpp"
#include "loopback/gradients.hpp"
#include "support/allocations.hpp"
#include "support/dice.hpp"
#include "support/effort.hpp"

namespace terrace::detail::test {

namespace {

using numbers = std::vector<std::int64_t>;

gradient_parameter embedding(std::string name, std::int64_t rows, std::int64_t row, element_type type) {
    return {std::move(name), rows * row, type, nullptr, row};
}

// What one rank adds to an embedding in one iteration: rows that may repeat. The same on every rank that asks.
template <class T>
struct contribution {
    numbers rows;
    std::vector<T> values;
};

template <class T>
contribution<T> contribution_of(std::uint64_t seed, int iteration, int rank, int ranks, const gradient_parameter& p) {
    dice d(seed + 1000 * at(iteration) + 10 * at(rank) + static_cast<std::uint64_t>(p.row));
    contribution<T> c;
    const auto all = static_cast<std::size_t>(p.count / p.row);
    const std::size_t few = d.coin() ? all / 8 : 2 * all;  // sparse, or not
    for (std::size_t n = all == 0 ? 0 : d.below(few + 1); n > 0; --n)
        c.rows.push_back(static_cast<std::int64_t>(d.below(all)));
    for (std::size_t n = c.rows.size() * static_cast<std::size_t>(p.row); n > 0; --n)
        c.values.push_back(static_cast<T>(static_cast<accumulator_t<T>>(static_cast<int>(d.below(3) - 1) * ranks)));
    return c;
}

// Two embeddings between dense gradients, over some iterations, some of which are local. Returns wrong rows and values.
template <class T>
int wrong_rows(communicator& comm, std::uint64_t seed, int turns) {
    dice shared(seed), own(seed + at(comm.rank()));
    const std::vector parameters{
        floats("first", 40), embedding("words", 64, 3, element_type_of<T>), floats("middle", 5),
        embedding("places", shared.below(9) == 0 ? 0 : 20, 1, element_type_of<T>), floats("last", 7)};
    gradient_options o = caps(shared.coin() ? 0 : 1000, 1000);
    o.op = shared.coin() ? reduce_op::sum : reduce_op::avg;
    o.dense_above = shared.coin() ? 0.3 : 0;
    gradient_reducer reducer(comm, parameters, o);
    int wrong = 0;
    for (int iteration = 0, turn = 0; turn < turns; ++turn) {
        const int first = iteration, last = first + static_cast<int>(shared.below(3));
        for (; iteration <= last; ++iteration) {
            std::optional<local_iterations> local;
            if (iteration < last) local.emplace(reducer.no_sync());
            std::vector<int> order{4, 3, 2, 1, 0};
            std::swap(order[own.below(5)], order[own.below(5)]);
            for (int p : order) {
                if (parameters[at(p)].row == 0) {
                    for (float& x : reducer.gradient<float>(p)) x = static_cast<float>(comm.rank());
                    reducer.ready(p);
                } else {
                    const auto c = contribution_of<T>(seed, iteration, comm.rank(), comm.size(), parameters[at(p)]);
                    reducer.ready(p, std::span(c.rows), std::span<const T>(c.values));
                }
            }
            reducer.finish();
        }
        const int n = comm.size(), ranks_sum = n * (n - 1) / 2;
        for (int p : {0, 2, 4})
            for (float x : reducer.gradient<float>(p))
                wrong += x != (o.op == reduce_op::sum ? static_cast<float>(ranks_sum) : static_cast<float>(n - 1) / 2);
        for (int p : {1, 3}) {
            const auto row = static_cast<std::size_t>(parameters[at(p)].row);
            std::map<std::int64_t, std::vector<double>> oracle;
            for (int i = first; i <= last; ++i)
                for (int r = 0; r < n; ++r) {
                    const auto c = contribution_of<T>(seed, i, r, n, parameters[at(p)]);
                    for (std::size_t k = 0; k < c.values.size(); ++k) {
                        auto& sum = oracle[c.rows[k / row]];
                        sum.resize(row);
                        sum[k % row] += static_cast<double>(static_cast<accumulator_t<T>>(c.values[k]));
                    }
                }
            const gradient_rows<T> seen = reducer.rows<T>(p);
            wrong += seen.rows.size() != oracle.size() || seen.values.size() != row * oracle.size();
            std::size_t k = 0;
            for (const auto& [number, sum] : oracle) {
                if (k >= seen.rows.size()) break;
                wrong += seen.rows[k] != number;
                for (std::size_t i = 0; i < row; ++i)
                    wrong += static_cast<double>(static_cast<accumulator_t<T>>(seen.values[k * row + i])) !=
                             sum[i] / (o.op == reduce_op::avg ? n : 1);
                ++k;
            }
        }
    }
    return wrong;
}

}  // namespace

TEST(sparse_gradients, are_exact) {
    const int runs = share("random runs of sparse gradients", 60, 6);
    for (int n = 0; n < runs; ++n)
        for (int ranks : {1, 2, 3, 8}) {
            std::atomic<int> wrong{0};
            const std::uint64_t s = seed() + static_cast<std::uint64_t>(100 * n + ranks);
            on_ranks(ranks, [&](communicator& comm) {
                wrong += n % 2 == 0 ? wrong_rows<float>(comm, s, 6) : wrong_rows<float16>(comm, s, 6);
            });
            ASSERT_EQ(wrong, 0) << ranks << " ranks, seed " << s;
        }
}

TEST(sparse_gradients, are_dense_where_many_rows_are_in_use) {
    on_ranks(4, [](communicator& comm) {
        gradient_reducer reducer(comm, {embedding("words", 100, 2, element_type::float32)});
        for (std::int64_t in_use : {10, 60, 49, 51, 0}) {
            numbers rows;  // rank 3 has most
            for (std::int64_t r = 0; r < (comm.rank() == 3 ? in_use : 1); ++r) rows.push_back(r);
            const std::vector<float> values(2 * rows.size(), 4);
            reducer.ready(0, std::span(rows), std::span(values));
            reducer.finish();
            EXPECT_EQ(reducer.was_dense(0), in_use > 50) << in_use;
            const gradient_rows<float> seen = reducer.rows<float>(0);
            ASSERT_EQ(seen.rows.size(), std::max<std::size_t>(1, static_cast<std::size_t>(in_use)));
            EXPECT_EQ(seen.values[1], in_use == 0 ? 3 : 4);
            EXPECT_EQ(seen.values.back(), in_use == 0 ? 3 : 1);
        }
    });
}

TEST(sparse_gradients, may_be_unused_dropped_and_weighted) {
    on_ranks(3, [](communicator& comm) {
        gradient_options o;
        o.unused = unused_parameters::find;
        o.weighted = true;
        gradient_reducer reducer(comm, {embedding("words", 10, 1, element_type::float64), floats("dense", 3)}, o);
        const numbers rows{7};
        const std::vector<double> values{8};
        for (int turn = 0; turn < 3; ++turn) {
            reducer.set_weight(comm.rank() == 0 ? 2 : 1);
            if (comm.rank() == 0) reducer.ready(0, std::span(rows), std::span(values));
            reducer.ready(1);
            reducer.finish();
            ASSERT_EQ(reducer.rows<double>(0).rows.size(), 1u);
            EXPECT_EQ(reducer.rows<double>(0).rows[0], 7);
            EXPECT_EQ(reducer.rows<double>(0).values[0], 4);
            reducer.drop(std::array{0});
            reducer.ready(1);
            reducer.finish();
            EXPECT_TRUE(reducer.rows<double>(0).rows.empty());
            reducer.finish();
            EXPECT_TRUE(reducer.rows<double>(0).rows.empty());
        }
    });
}

TEST(sparse_gradients, say_what_is_wrong_and_go_on) {
    on_ranks(2, [](communicator& comm) {
        gradient_reducer reducer(comm, {embedding("words", 10, 2, element_type::float32), floats("dense", 3)});
        const numbers rows{3, 10};
        const std::vector<float> four(4), three(3);
        EXPECT_EQ(objection([&] { reducer.ready(0, std::span(rows), std::span(four)); }),
                  "ready: there is no row 10; there are 10, numbered from 0");
        EXPECT_EQ(objection([&] { reducer.ready(0, std::span(rows), std::span(three)); }),
                  "ready: 2 rows with 3 values of float32 are not the gradient of \"words\", which is sparse and has 2 "
                  "float32 in a row");
        EXPECT_EQ(objection([&] { reducer.ready(0); }), "ready: \"words\" is sparse; pass its rows and their values");
        EXPECT_NE(objection([&] { reducer.ready(1, std::span(rows), std::span(four)); }), "");
        EXPECT_EQ(objection([&] { reducer.gradient<float>(0); }), "gradient: \"words\" is sparse; use rows()");
        EXPECT_EQ(objection([&] { reducer.rows<float>(1); }), "rows: \"dense\" is dense; use gradient()");
        reducer.ready(1);
        EXPECT_EQ(objection([&] { reducer.finish(); }),
                  "finish: rank 0 has no gradient of parameter 0, \"words\"; call ready() for each parameter before "
                  "finish()");
        reducer.ready(0, std::span(rows).first(1), std::span(four).first(2));
        reducer.ready(1);
        reducer.finish();
        EXPECT_EQ(reducer.rows<float>(0).rows.size(), 1u);
        const auto made = [&](const gradient_parameter& p, double dense_above = 0) {
            gradient_options o;
            o.dense_above = dense_above;
            return objection([&] { gradient_reducer(comm, {p}, o); });
        };
        EXPECT_EQ(
            made({"words", 5, element_type::float32, nullptr, 2}),
            "gradient_reducer: rank 0: parameter \"words\" has count 5 and row 2; the count must be a multiple of "
            "the row");
        float x = 0;
        EXPECT_NE(made({"words", 1, element_type::float32, &x, 1}), "");
        EXPECT_NE(made({"words", 1, element_type::float32, nullptr, 1}, 2), "");
    });
}

// Once each buffer has been as large as it gets.
TEST(sparse_gradients, take_no_memory_in_the_long_run) {
    on_ranks(2, [](communicator& comm) {
        gradient_reducer reducer(comm, {embedding("words", 1000, 2, element_type::float32)});
        const numbers rows{1, 5, 900};
        const std::vector<float> values(6);
        const auto run = [&](int times) {
            for (int n = 0; n < times; ++n) {
                reducer.ready(0, std::span(rows), std::span(values));
                reducer.finish();
            }
        };
        run(3);
        const int before = allocations();
        run(10);
        EXPECT_EQ(allocations(), before);
    });
}

}  // namespace terrace::detail::test
