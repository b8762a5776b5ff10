// Gradients over several iterations: orders that change, parameters that ranks do not use, weights, dropped layers.

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "loopback/gradients.hpp"
#include "support/allocations.hpp"

namespace terrace::detail::test::gradient_iterations_test {

namespace {

using list = std::vector<int>;

std::vector<gradient_parameter> four(std::int64_t count = 10) {
    return {floats("a", count), floats("b", count), floats("c", count), floats("d", count)};
}

gradient_options how(unused_parameters unused) {
    gradient_options o = caps(80, 80);
    o.unused = unused;
    return o;
}

void iterate(gradient_reducer& reducer, const list& order) {
    for (int p : order) reducer.ready(p);
    reducer.finish();
}

void iterate_with(gradient_reducer& reducer, const list& order, float value) {
    for (int p : order) reducer.gradient<float>(p)[0] = value;
    iterate(reducer, order);
}

list buckets_of(const gradient_reducer& reducer, int parameters) {
    list buckets;
    for (int p = 0; p < parameters; ++p) buckets.push_back(reducer.bucket_of(p));
    return buckets;
}

list firsts(gradient_reducer& reducer, int parameters) {
    list values;
    for (int p = 0; p < parameters; ++p) values.push_back(static_cast<int>(reducer.gradient<float>(p)[0]));
    return values;
}

}  // namespace

// Buckets follow the order of rank 0; other ranks' orders do not matter.
TEST(gradient_order, is_followed_after_the_first_iteration_and_where_it_changes_for_good) {
    on_ranks(3, [](communicator& comm) {
        const auto of_rank_0 = [&](const list& order) { return comm.rank() == 0 ? order : list{1, 3, 0, 2}; };
        gradient_reducer reducer(comm, four(), caps(80, 80));
        EXPECT_EQ(buckets_of(reducer, 4), (list{1, 1, 0, 0}));
        for (int p = 0; p < 4; ++p) reducer.gradient<float>(p)[1] = static_cast<float>(p);
        iterate(reducer, of_rank_0({0, 3, 2, 1}));
        EXPECT_EQ(reducer.rebuilds(), 1);
        EXPECT_EQ(buckets_of(reducer, 4), (list{0, 1, 1, 0}));
        for (int p = 0; p < 4; ++p) EXPECT_EQ(reducer.gradient<float>(p)[1], static_cast<float>(p));
        for (int turn = 0; turn < 5; ++turn) {  // alternating orders
            iterate(reducer, of_rank_0({1, 2, 3, 0}));
            iterate(reducer, of_rank_0({0, 3, 2, 1}));
        }
        for (int turn = 0; turn < 5; ++turn) iterate(reducer, of_rank_0({3, 0, 1, 2}));  // same order of buckets
        EXPECT_EQ(reducer.rebuilds(), 1);
        for (int turn = 0; turn < 5; ++turn) iterate(reducer, of_rank_0({1, 2, 3, 0}));
        EXPECT_EQ(reducer.rebuilds(), 2);
        EXPECT_EQ(buckets_of(reducer, 4), (list{1, 0, 0, 1}));
    });
}

TEST(gradient_order, takes_no_memory_once_buckets_follow_it) {
    on_ranks(2, [](communicator& comm) {
        constexpr int many = 40;  // more than a communicator keeps programs for
        std::vector<float> own(1002);
        // Buckets have different shapes, since the number of calls of one shape in flight would vary.
        std::vector<gradient_parameter> parameters;
        for (int p = 0; p < many; ++p) parameters.push_back(floats("p", 1000 + p));
        parameters[2].gradient = own.data();
        for (const unused_parameters unused : {unused_parameters::error, unused_parameters::find}) {
            gradient_options o = how(unused);
            o.weighted = unused == unused_parameters::find;
            gradient_reducer reducer(comm, parameters, o);
            const auto run = [&](int times) {
                for (int n = 0; n < times; ++n) {
                    for (int p = 0; p < many; ++p)
                        if (unused == unused_parameters::error || (p ^ 1) > 0) reducer.ready(p ^ 1);
                    reducer.poll();
                    reducer.finish();
                }
            };
            run(6);
            // The number of calls that hold scratch memory at once varies, too, so early turns may allocate. Each rank
            // counts its own allocations, and all ranks make the same number of turns.
            int least = many;
            for (int turn = 0; turn < 10; ++turn) {
                const int before = allocations();
                run(20);
                least = std::min(least, allocations() - before);
            }
            EXPECT_EQ(least, 0);
            EXPECT_EQ(reducer.rebuilds(), 1);
            EXPECT_EQ(reducer.buckets(), many);
        }
    });
}

TEST(unused_gradients, are_averaged_where_a_rank_uses_them_and_stay_where_none_does) {
    on_ranks(4, [](communicator& comm) {
        for (bool declares : {false, true}) {
            gradient_reducer reducer(comm, four(), how(unused_parameters::find));
            for (int p = 0; p < 4; ++p) reducer.gradient<float>(p)[0] = 100;
            const list used = comm.rank() == 1 ? list{3, 0} : list{3};
            for (int turn = 0; turn < 3; ++turn) {
                if (declares && comm.rank() != 2) reducer.forward_done(used);
                iterate_with(reducer, used, 8);
                EXPECT_EQ(firsts(reducer, 4), (list{2, 100, 100, 8}));
            }
        }
    });
}

// A parameter counts as used if a local iteration used it, even if the iteration that reduces does not.
TEST(unused_gradients, add_up_over_local_iterations) {
    for (const unused_parameters unused : {unused_parameters::find, unused_parameters::fixed})
        on_ranks(2, [unused](communicator& comm) {
            gradient_reducer reducer(comm, four(), how(unused));
            for (int turn = 0; turn < 3; ++turn) {
                for (int p = 0; p < 4; ++p) reducer.gradient<float>(p)[0] = 50;
                {
                    const local_iterations local = reducer.no_sync();
                    const local_iterations nested = reducer.no_sync();
                    iterate_with(reducer, comm.rank() == 0 ? list{3, 1} : list{3}, 6);
                }
                if (unused == unused_parameters::find) reducer.forward_done(list{3});
                iterate_with(reducer, {3}, 4);
                EXPECT_EQ(firsts(reducer, 4), (list{50, 3, 50, 4}));
            }
        });
}

TEST(unused_gradients, are_an_error_where_they_were_to_come) {
    on_ranks(3, [](communicator& comm) {
        const bool odd = comm.rank() == 1;
        const char* message =
            "finish: rank 1 has no gradient of parameter 3, \"d\"; call ready() for each parameter before finish()";
        gradient_reducer declared(comm, four(), how(unused_parameters::find));
        declared.forward_done(list{3, 1});
        EXPECT_EQ(objection([&] { iterate(declared, odd ? list{1} : list{3, 1}); }), message);
        iterate(declared, {1});
        gradient_reducer fixed(comm, four(), how(unused_parameters::fixed));
        for (int turn = 0; turn < 3; ++turn) iterate(fixed, {3, 1});
        EXPECT_EQ(objection([&] { fixed.ready(0); }), "ready: \"a\" was said not to be used, by the first iteration");
        EXPECT_EQ(objection([&] { iterate(fixed, odd ? list{1} : list{3, 1}); }), message);
        iterate(fixed, {3, 1});
    });
}

TEST(unused_gradients, say_what_is_wrong_and_go_on) {
    on_ranks(2, [](communicator& comm) {
        gradient_reducer reducer(comm, four(), how(unused_parameters::find));
        reducer.ready(2);
        EXPECT_EQ(objection([&] { reducer.forward_done(list{3}); }),
                  "forward_done: \"c\" is ready, and not among those that are used");
        reducer.forward_done(list{2, 3});
        EXPECT_EQ(objection([&] {
                      reducer.forward_done(list{2, 3});
                  }),
                  "forward_done: called already in this iteration; call finish() first");
        EXPECT_EQ(objection([&] { reducer.ready(1); }), "ready: \"b\" was said not to be used, by forward_done()");
        EXPECT_NE(objection([&] { reducer.set_weight(2); }), "");
        EXPECT_NE(objection([&] { reducer.drop(list{1}); }), "");
        EXPECT_NE(objection([&] { reducer.join(); }), "");
        iterate(reducer, {3});
        EXPECT_NE(objection([&] { reducer.set_weight(2); }), "");  // not weighted
        EXPECT_NE(objection([&] { reducer.join(); }), "");
    });
}

TEST(weights, average_over_samples_and_ranks_without_data_join) {
    on_ranks(3, [](communicator& comm) {
        gradient_options o = caps(80, 80);
        o.weighted = true;
        std::array<float, 10> own{};
        std::vector<gradient_parameter> parameters = four();
        parameters[1].gradient = own.data();
        gradient_reducer reducer(comm, parameters, o);
        EXPECT_EQ(objection([&] { reducer.set_weight(0); }),
                  "set_weight: the weight is 0; pass one above 0, or join()");
        constexpr std::array samples{1.0, 2.0, 5.0};
        for (int epoch = 0; epoch < 2; ++epoch) {
            int turn = 0;
            const auto expect = [&](int result) {
                EXPECT_EQ(firsts(reducer, 4), (list{result, result, result, result})) << turn;
                ++turn;
            };
            for (; turn < 2 + comm.rank();) {
                reducer.set_weight(turn == 0 ? samples[static_cast<std::size_t>(comm.rank())] : 1);
                iterate_with(reducer, {0, 3, 2, 1}, static_cast<float>(8 * comm.rank()));
                expect(turn == 0 ? 12 : turn == 1 ? 8 : turn == 2 ? 12 : 16);
            }
            reducer.join([&] { expect(turn == 2 ? 12 : 16); });
            EXPECT_EQ(turn, 4);
        }
    });
}

TEST(dropped_layers, do_not_travel) {
    on_ranks(3, [](communicator& comm) {
        std::array<float, 10> own{};
        std::vector<gradient_parameter> parameters = four();
        parameters[1].gradient = own.data();
        gradient_reducer reducer(comm, parameters, caps(120, 120));
        iterate_with(reducer, {3, 2, 1, 0}, 6);
        for (int turn = 0; turn < 3; ++turn) {
            own[0] = 77;
            reducer.drop(list{1, 3});
            iterate_with(reducer, {0, 2}, static_cast<float>(comm.rank()));
            EXPECT_EQ(firsts(reducer, 4), (list{1, 77, 1, 0}));
            reducer.drop(comm.rank() == 2 ? list{0, 1, 2, 3} : list{1}, 2);
            reducer.finish();
            EXPECT_EQ(firsts(reducer, 4), (list{0, 77, 0, 0}));
            iterate_with(reducer, {3, 2, 1, 0}, 6);
            EXPECT_EQ(firsts(reducer, 4), (list{6, 6, 6, 6}));
        }
        reducer.drop(list{1});
        EXPECT_EQ(objection([&] { reducer.ready(1); }), "ready: \"b\" is dropped in this iteration");
        iterate(reducer, {0, 2, 3});
        EXPECT_EQ(objection([&] { reducer.drop(list{4}, 1); }),
                  "drop: rank 1 names a parameter that there is not; there are 4, numbered from 0");
        iterate(reducer, {0, 1, 2, 3});
    });
}

// Buckets are in flight on all communicators at once.
TEST(several_communicators, take_buckets_by_turns) {
    on_ranks(4, [](communicator& comm) {
        std::optional<communicator> second = comm.split(0, comm.rank()), third = comm.split(0, comm.rank());
        const std::array<communicator*, 3> comms{&comm, &*second, &*third};
        for (std::int64_t cap : {0, 80}) {
            gradient_reducer reducer(comms, four(2000), caps(cap, cap));
            for (int turn = 0; turn < 10; ++turn) {
                iterate_with(reducer, comm.rank() % 2 == 0 ? list{0, 1, 2, 3} : list{2, 3, 1, 0},
                             static_cast<float>(2 * comm.rank()));
                EXPECT_EQ(firsts(reducer, 4), (list{3, 3, 3, 3}));
            }
        }
    });
}

}  // namespace terrace::detail::test::gradient_iterations_test
