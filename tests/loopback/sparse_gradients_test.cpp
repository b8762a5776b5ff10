// Sparse gradients: rows of an embedding. The conformance suite checks the results.

#include <algorithm>
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "loopback/gradients.hpp"
#include "support/allocations.hpp"
#include "support/sparse_runs.hpp"

namespace terrace::detail::test::sparse_gradients_test {

namespace {

using numbers = std::vector<std::int64_t>;

}  // namespace

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

// Predictions decide: an allreduce of all rows, or an allgather in which each rank sends as many as the fullest has.
TEST(sparse_gradients, are_dense_where_that_is_predicted_to_be_faster) {
    options o;
    o.place = options::placement::anywhere;
    loopback::run(
        plan::load(std::string(TERRACE_SOURCE_ROOT) + "/tests/golden/two-by-four.plan.yaml"),
        [](communicator& comm) {
            constexpr std::int64_t all = 20'000, row = 16, bytes = row * 4;
            gradient_reducer reducer(comm, {embedding("words", all, row, element_type::float32)});
            int dense = 0;
            for (std::int64_t in_use = 256; in_use <= 16'384; in_use *= 2) {
                numbers rows;
                for (std::int64_t r = 0; r < in_use; ++r) rows.push_back(r);
                const std::vector<float> values(row * rows.size(), 4);
                reducer.ready(0, std::span(rows), std::span(values));
                reducer.finish();
                const bool faster = comm.predicted(all * bytes) < comm.predicted_allgather(8 * in_use * bytes);
                EXPECT_EQ(reducer.was_dense(0), faster) << in_use;
                EXPECT_EQ(reducer.rows<float>(0).values.back(), 4);
                dense += faster;
            }
            EXPECT_GT(dense, 0);
            EXPECT_LT(dense, 7);
        },
        o);
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

// Nothing is allocated once each buffer has reached its final size.
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

}  // namespace terrace::detail::test::sparse_gradients_test
