// Gradients: buckets, errors, broadcasts and statistics. The conformance suite checks the results.

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "loopback/gradients.hpp"

namespace terrace::detail::test::gradients_test {

namespace {

std::vector<int> buckets_of(gradient_reducer& reducer, int parameters) {
    std::vector<int> buckets;
    for (int p = 0; p < parameters; ++p) buckets.push_back(reducer.bucket_of(p));
    return buckets;
}

}  // namespace

TEST(gradient_buckets, hold_gradients_of_a_type_from_the_last_one_on) {
    on_ranks(1, [](communicator& comm) {
        const auto buckets = [&](const std::vector<gradient_parameter>& parameters, const gradient_options& o) {
            gradient_reducer reducer(comm, parameters, o);
            return buckets_of(reducer, static_cast<int>(parameters.size()));
        };
        const std::vector five{floats("a", 10), floats("b", 10), floats("c", 10), floats("d", 10), floats("e", 10)};
        using list = std::vector<int>;
        EXPECT_EQ(buckets(five, {}), (list{0, 0, 0, 0, 0}));
        EXPECT_EQ(buckets(five, caps(80, 40)), (list{2, 2, 1, 1, 0}));
        EXPECT_EQ(buckets(five, caps(0, 40)), (list{4, 3, 2, 1, 0}));
        EXPECT_EQ(buckets(five, caps(79, 1000)), (list{4, 3, 2, 1, 0}));
        // A gradient larger than the cap has its own bucket, so no other gradient waits for it.
        EXPECT_EQ(buckets({floats("a", 10), floats("b", 100), floats("c", 10)}, caps(80, 80)), (list{2, 1, 0}));
        // Two types alternate. The bucket that is complete first has number 0.
        std::vector<gradient_parameter> mixed = five;
        mixed[1].type = mixed[3].type = element_type::float64;
        EXPECT_EQ(buckets(mixed, {}), (list{1, 0, 1, 0, 1}));
        EXPECT_EQ(buckets({}, {}), list{});
        EXPECT_EQ(buckets({floats("nothing", 0)}, caps(0, 0)), list{0});
    });
}

TEST(gradient_reducer, is_as_one_rank_alone_where_there_is_nothing_to_reduce) {
    on_ranks(3, [](communicator& comm) {
        gradient_reducer none(comm, {});
        for (int i = 0; i < 3; ++i) none.finish();
        EXPECT_EQ(none.buckets(), 0);
        gradient_reducer empty(comm, {floats("a", 0)});
        empty.ready(0);
        empty.finish();
        EXPECT_EQ(empty.gradient<float>(0).size(), 0u);
    });
}

TEST(gradient_reducer, may_be_moved) {
    on_ranks(2, [](communicator& comm) {
        gradient_reducer first(comm, {floats("a", 3)});
        const local_iterations guard = first.no_sync();
        gradient_reducer second(std::move(first));
        second.gradient<float>(0)[1] = 1;
        second.ready(0);
        second.finish();
        EXPECT_EQ(second.gradient<float>(0)[1], 1);
    });
}

// All ranks get the error, without waiting for a deadline. The next iteration works.
TEST(gradient_reducer, names_the_gradient_that_does_not_come) {
    for (std::int64_t cap : {0, 50, 1 << 20})
        on_ranks(4, [cap](communicator& comm) {
            gradient_reducer reducer(comm, {floats("a", 10), floats("b", 10), floats("c", 10), floats("d", 10)},
                                     caps(cap, cap));
            for (int turn = 0; turn < 3; ++turn) {
                for (int p = 3; p >= 0; --p)
                    if (comm.rank() != 2 || p % 2 == 0) reducer.ready(p);
                EXPECT_EQ(
                    objection([&] { reducer.finish(); }),
                    "finish: rank 2 has no gradient of parameter 1, \"b\"; call ready() for each parameter before "
                    "finish()");
                for (int p = 0; p < 4; ++p) reducer.gradient<float>(p)[0] = static_cast<float>(p + comm.rank());
                for (int p = 3; p >= 0; --p) reducer.ready(p);
                reducer.finish();
                for (int p = 0; p < 4; ++p) EXPECT_EQ(reducer.gradient<float>(p)[0], static_cast<float>(p) + 1.5f);
            }
        });
}

TEST(gradient_reducer, says_what_is_wrong_and_goes_on) {
    on_ranks(2, [](communicator& comm) {
        std::array<float, 10> own{};
        gradient_parameter with_memory = floats("b", 10);
        with_memory.gradient = own.data();
        gradient_reducer reducer(comm, {floats("a", 10), with_memory});
        reducer.ready(1);
        EXPECT_EQ(objection([&] { reducer.ready(1); }),
                  "ready: \"b\" is ready already; say so once in an iteration, and end it by finish()");
        EXPECT_EQ(objection([&] { reducer.ready(2); }),
                  "gradient_reducer: there is no parameter 2; there are 2, numbered from 0");
        EXPECT_EQ(objection([&] { reducer.ready(-1); }),
                  "gradient_reducer: there is no parameter -1; there are 2, numbered from 0");
        EXPECT_EQ(objection([&] { reducer.gradient<double>(0); }),
                  "gradient: parameter \"a\" is of type float32, not float64");
        EXPECT_EQ(objection([&] { reducer.broadcast({}); }),
                  "broadcast: an iteration is under way; call finish() first");
        EXPECT_EQ(objection([&] { reducer.set_gradient(1, own.data()); }),
                  "set_gradient: \"b\" is in use until finish()");
        EXPECT_NE(objection([&] { reducer.set_gradient(0, own.data()); }), "");
        reducer.ready(0);
        reducer.finish();
        std::array<float, 10> other{1, 2, 3};
        reducer.set_gradient(1, other.data());
        reducer.ready(0);
        reducer.ready(1);
        reducer.finish();
        EXPECT_EQ(other[2], 3);
    });
}

TEST(gradient_reducer, says_how_ranks_differ) {
    on_ranks(3, [](communicator& comm) {
        const auto made = [&](std::vector<gradient_parameter> parameters, gradient_options o = {}) {
            return objection([&] { gradient_reducer(comm, std::move(parameters), o); });
        };
        const bool odd = comm.rank() == 2;
        EXPECT_EQ(
            made({floats("a", 1), floats(odd ? "c" : "b", 5)}),
            "gradient_reducer: ranks differ: rank 0 has \"b\" (5 float32), and rank 2 has \"c\" (5 float32); pass "
            "the same on all ranks");
        EXPECT_EQ(
            made(odd ? std::vector{floats("a", 1)} : std::vector{floats("a", 1), floats("b", 1)}),
            "gradient_reducer: ranks differ: rank 0 has \"b\" (1 float32), and rank 2 has nothing there; pass the "
            "same on all ranks");
        EXPECT_EQ(made({floats("a", odd ? -1 : 1)}),
                  "gradient_reducer: rank 2: parameter \"a\" has count -1; pass 0 or more");
        EXPECT_EQ(made({{"a", 1, element_type::int32, nullptr}}),
                  "gradient_reducer: rank 0: parameter \"a\" is of type int32; gradients have a floating-point type");
        EXPECT_NE(made({}, caps(odd ? 5 : 6, 1)), "");
        EXPECT_EQ(made({}, caps(-2, 1)),
                  "gradient_reducer: rank 0: bucket_bytes is -2; pass 0 or more, or gradient_options::automatic");
        EXPECT_EQ(objection([&] { gradient_reducer(std::span<communicator* const>(), {}); }),
                  "gradient_reducer: there is no communicator; pass at least one");
        EXPECT_EQ(made({floats("a", 1)}), "");
    });
}

// The other rank makes no more calls. Buckets in flight keep their memory.
TEST(gradient_reducer, is_broken_after_a_timeout) {
    options o;
    o.timeout = std::chrono::milliseconds(200);
    std::atomic<int> refused{0};
    const auto body = [&](communicator& comm) {
        gradient_reducer reducer(comm, {floats("a", 1000), floats("b", 10)}, caps(0, 0));
        for (int turn = 0; turn < 2; ++turn) {
            for (int p : {1, 0}) reducer.ready(p);
            reducer.finish();
        }
        if (comm.rank() == 1) return;  // destroys its communicator
        EXPECT_THROW(
            {
                for (int p : {1, 0}) reducer.ready(p);
                reducer.finish();
            },
            error);
        const char* message = "gradient_reducer: an earlier call failed, and the reducer is broken; make a new one";
        refused += objection([&] { reducer.ready(0); }) == message;
        refused += objection([&] { reducer.finish(); }) == message;
        gradient_reducer other(std::move(reducer));
        refused += objection([&] { other.poll(); }) == message;
    };
    EXPECT_NO_THROW(loopback::run(plan_of_all_collectives(machines_of_size(2).back()), body, o));
    EXPECT_EQ(refused, 3);
}

// Compares the times with each other, and asserts no length.
TEST(gradient_statistics, add_up) {
    on_ranks(3, [](communicator& comm) {
        gradient_reducer reducer(comm, {floats("a", 1000), floats("b", 1000)}, caps(0, 0));
        EXPECT_EQ(objection([&] { reducer.statistics(); }), "statistics: no iteration has been reduced yet");
        for (int turn = 0; turn < 3; ++turn) {
            for (int p : {1, 0}) reducer.ready(p);
            EXPECT_EQ(objection([&] { reducer.statistics(); }),
                      "statistics: an iteration is under way; call finish() first");
            reducer.finish();
            const gradient_times t = reducer.statistics();
            EXPECT_GE(t.compute, 0);
            EXPECT_GT(t.communication, 0);
            EXPECT_GE(t.hidden, 0);
            EXPECT_LE(t.hidden, t.communication);
            EXPECT_GT(t.exposed, 0);
            EXPECT_GE(t.waiting, 0);
            EXPECT_LE(t.waiting, t.exposed);
            double least = t.waiting;
            comm.allreduce(std::span(&least, 1), reduce_op::min);
            EXPECT_EQ(least, 0);  // the slowest rank does not wait
        }
    });
}

TEST(gradient_broadcast, copies_state_from_a_rank) {
    for (std::int64_t cap : {0, 100, 1 << 20})
        on_ranks(3, [cap](communicator& comm) {
            gradient_reducer reducer(comm, {floats("a", 10)}, caps(cap, cap));
            for (int root = 0; root < 3; ++root) {
                const bool is_root = comm.rank() == root;
                std::vector<double> weights(11, is_root ? 2.5 : 0), large(1000, is_root ? 7 : 1);
                std::int64_t steps = is_root ? 17 : 0;
                const std::vector<state_tensor> state{{"weights", weights.data(), 11, element_type::float64},
                                                      {"nothing", nullptr, 0, element_type::int8},
                                                      {"steps", &steps, 1, element_type::int64},
                                                      {"large", large.data(), 1000, element_type::float64}};
                reducer.broadcast(state, root);
                EXPECT_EQ(weights, std::vector<double>(11, 2.5));
                EXPECT_EQ(large, std::vector<double>(1000, 7));
                EXPECT_EQ(steps, 17);
            }
        });
}

TEST(gradient_broadcast, says_how_ranks_differ) {
    on_ranks(2, [](communicator& comm) {
        gradient_reducer reducer(comm, {});
        float x = 0;
        const auto sent = [&](const state_tensor& t, int root) {
            return objection([&] { reducer.broadcast(std::span(&t, 1), root); });
        };
        EXPECT_EQ(
            sent({"mean", &x, 1, comm.rank() == 1 ? element_type::int32 : element_type::float32}, 0),
            "broadcast: ranks differ: rank 0 has \"mean\" (1 float32), and rank 1 has \"mean\" (1 int32); pass the "
            "same on all ranks");
        EXPECT_EQ(sent({"mean", nullptr, 1, element_type::float32}, 0),
                  "broadcast: rank 0: the data of tensor \"mean\" is null; pass memory of 1 elements");
        EXPECT_EQ(sent({"mean", &x, 1, element_type::float32}, 2),
                  "broadcast: rank 0: root is 2, and there are 2 ranks; pass 0 to 1");
        EXPECT_EQ(sent({"mean", &x, 1, element_type::float32}, 1), "");
    });
}

}  // namespace terrace::detail::test::gradients_test
