// Groups of calls: joined calls, refused calls, and errors if ranks' groups differ.

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/loopback.hpp>

#include "calls/call_groups.hpp"
#include "support/bad_calls.hpp"
#include "support/refusal.hpp"

namespace terrace::detail::test::groups_test {

namespace {

call_shape call_of(collective what, std::int64_t count, element_type type) {
    return {.what = what, .count = count, .counts = {}, .type = type};
}

// Returns for each call that begins the numbers (from 1) of the calls that it carries.
std::vector<std::vector<std::uint64_t>> joined(const std::vector<call_shape>& shapes) {
    constexpr int ranks = 4;
    std::vector<std::vector<std::uint64_t>> all;
    std::deque<detail::call> made;
    open_group group;
    for (std::size_t n = 0; n < shapes.size(); ++n) {
        const call_piece part{.count = shapes[n].count};
        if (const std::uint64_t ticket = group.join(shapes[n], part, ranks)) {
            all[ticket - 1].push_back(n + 1);
            continue;
        }
        auto work = may_join(shapes[n], ranks) ? std::make_unique<joined_calls>(part) : nullptr;
        joined_calls* others_may_join = work.get();
        made.emplace_back(full_call{shapes[n]}, std::move(work), call_state::queued);
        all.push_back({n + 1});
        group.add(made.size(), made.back(), others_may_join, ranks);
    }
    for (std::size_t c = 0; c < made.size(); ++c) {
        std::int64_t count = 0;
        for (const std::uint64_t n : all[c]) count += shapes[n - 1].count;
        EXPECT_EQ(made[c].shape().count, count);
        EXPECT_EQ(made[c].shape().joined.size(), all[c].size() == 1 ? 0 : all[c].size());
    }
    return all;
}

using tickets = std::vector<std::vector<std::uint64_t>>;
constexpr auto allreduce = collective::allreduce, allgather = collective::allgather;
constexpr auto f32 = element_type::float32, f64 = element_type::float64;

}  // namespace

TEST(groups, small_calls_of_one_kind_are_joined) {
    EXPECT_EQ(joined({call_of(allreduce, 10, f32), call_of(allreduce, 10, f64), call_of(allreduce, 7, f32),
                      call_of(allgather, 7, f32), call_of(allreduce, 16'384, f32), call_of(allreduce, 16'385, f32),
                      call_of(allgather, 4096, f32), call_of(allgather, 4097, f32), call_of(allreduce, 0, f32)}),
              (tickets{{1, 3, 5}, {2}, {4, 7}, {6}, {8}, {9}}));
}

TEST(groups, calls_whose_ranks_may_differ_are_not_joined) {
    call_shape multiplied = call_of(allreduce, 10, f32), barrier = call_of(allreduce, 10, f32),
               unequal = call_of(allgather, 0, f32), rooted = call_of(collective::broadcast, 10, f32),
               other_root = call_of(collective::broadcast, 10, f32), largest = call_of(allreduce, 10, f32);
    multiplied.op = reduce_op::premul_sum;
    barrier.is_barrier = true;
    unequal.counts = {1, 2, 3, 4};
    other_root.root = 1;
    largest.op = reduce_op::max;
    EXPECT_EQ(joined({call_of(allreduce, 10, f32), multiplied, multiplied, barrier, unequal, unequal, rooted,
                      other_root, largest}),
              (tickets{{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}}));
}

TEST(groups, joined_calls_have_bounds) {
    const tickets all = joined(std::vector(40, call_of(allreduce, 16'384, f32)));
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0].size(), 16u);
    EXPECT_EQ(all[1].front(), 17u);
    EXPECT_EQ(all[2].size(), 8u);
}

// Joined calls are compared once, and need one program.
TEST(groups, sixty_four_calls_make_one_program) {
    std::mutex guard;
    std::vector<std::string> lines;
    options o;
    o.log = [&](log_level level, std::string_view line) {
        const std::lock_guard lock(guard);
        if (level == log_level::debug) lines.emplace_back(line);
    };
    loopback::run(
        plan_for(4),
        [](communicator& comm) {
            std::vector<std::vector<float>> data(64, std::vector<float>(256, 1));
            for (int round = 0; round < 3; ++round) {
                std::vector<request> requests;
                comm.group_start();
                for (auto& d : data) requests.push_back(comm.allreduce_async(d, reduce_op::max));
                comm.group_end();
                wait_all(requests);
            }
            for (const auto& d : data) EXPECT_EQ(d, std::vector<float>(256, 1));
        },
        o);
    ASSERT_EQ(lines.size(), 4u) << "one a rank";
    EXPECT_EQ(lines.front().find("allreduce of 16384 float32"), 0u) << lines.front();
}

TEST(groups, what_blocks_is_refused_while_one_is_open) {
    loopback::run(plan_for(2), [](communicator& comm) {
        std::vector<float> data(10, 1);
        std::vector<std::int64_t> counts(2);
        EXPECT_EQ(refusal_of<usage_error>([&] { comm.group_end(); }),
                  "group_end: there is no group; call group_start first");
        comm.group_start();
        comm.group_start();
        EXPECT_EQ(refusal_of<usage_error>([&] { comm.allreduce(data); }),
                  "allreduce: a group is open; call group_end first, or make an _async call and wait for it then");
        EXPECT_EQ(refusal_of<usage_error>([&] { comm.barrier(); }).find("barrier: a group is open"), 0u);
        EXPECT_EQ(refusal_of<usage_error>([&] { comm.split(0); }).find("split: a group is open"), 0u);
        EXPECT_EQ(
            refusal_of<usage_error>([&] { comm.gatherv(data, data, counts, 0); }).find("gatherv: a group is open"), 0u);
        request r = comm.allreduce_async(data);
        comm.group_end();
        EXPECT_EQ(refusal_of<usage_error>([&] { r.wait(); }),
                  "request: its call is in a group that is open; call group_end before you wait for it");
        comm.send(std::as_const(data), comm.rank());
        EXPECT_EQ(comm.recv(data, comm.rank()).count, 10) << "messages do not wait for groups";
        comm.group_end();
        std::vector<float> others(10, 1);  // `data` is in use by the call of the dropped request
        comm.allreduce(others);
    });
}

TEST(groups, that_are_empty_or_of_one_call_are_as_none) {
    loopback::run(plan_for(3), [](communicator& comm) {
        std::vector<float> data(10, 1);
        comm.group_start();
        comm.group_end();
        comm.group_start();
        request r = comm.allreduce_async(data);
        comm.group_end();
        r.wait();
        EXPECT_EQ(data, std::vector<float>(10, 3));
    });
}

// If ranks joined different calls, they would add unrelated elements.
TEST(groups, that_differ_between_ranks_are_errors) {
    std::atomic<int> told{0};
    loopback::run(plan_for(3), [&](communicator& comm) {
        std::vector<float> a(10, 1), b(20, 1);
        const bool differs = comm.rank() == 1;
        const std::string text = refusal_of<usage_error>([&] {
            std::vector<request> requests;
            comm.group_start();
            requests.push_back(comm.allreduce_async(differs ? b : a));
            requests.push_back(comm.allreduce_async(differs ? a : b));
            comm.group_end();
            wait_all(requests);
        });
        EXPECT_NE(text.find("allreduce of 30 float32, sum, for 2 calls of a group"), std::string::npos) << text;
        ++told;
    });
    EXPECT_EQ(told, 3);
}

TEST(groups, a_call_that_is_wrong_is_an_error_on_all_ranks) {
    loopback::run(plan_for(2), [&](communicator& comm) {
        std::vector<float> data(10, 1);
        const std::string text = refusal_of<usage_error>([&] {
            comm.group_start();
            request first = comm.allreduce_async(data.data(), data.data(), comm.rank() == 1 ? -1 : 10,
                                                 element_type::float32, reduce_op::sum);
            comm.group_end();
            first.wait();
        });
        EXPECT_NE(text.find("count is -1"), std::string::npos) << text;
    });
}

TEST(groups, joined_calls_are_complete_together) {
    loopback::run(plan_for(2), [&](communicator& comm) {
        std::vector<float> a(10, 1), b(5, 1);
        std::vector<request> requests;
        comm.group_start();
        requests.push_back(comm.allreduce_async(a));
        requests.push_back(comm.allreduce_async(b));
        comm.group_end();
        while (!requests[1].test()) {}
        EXPECT_EQ(b, std::vector<float>(5, 2));
        EXPECT_EQ(a, std::vector<float>(10, 2)) << "they travel together";
    });
}

}  // namespace terrace::detail::test::groups_test
