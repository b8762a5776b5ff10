// Calls in flight: many at once, waited for in any order.

#include <algorithm>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include <terrace/loopback.hpp>

#include "plan/plan_access.hpp"
#include "support/allocations.hpp"
#include "support/bad_calls.hpp"
#include "support/dice.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test::async_test {

namespace {

std::vector<plan> plans() {
    std::vector<plan> all;
    for (const hierarchy& machine :
         {machine_of(tree({{4, 2, 3}, {3}})), machine_of(tree::uniform(std::vector{2, 2, 2}))})
        for (const char* inner : {"ring", "shared_memory"}) {
            std::vector<stage> stages{run_by({{0}, machine.shape.uniform_size(0).value_or(0), mode::scatter}, inner)};
            for (int l = 1; l < machine.depth(); ++l)
                stages.push_back({{l}, machine.shape.uniform_size(l).value_or(0), mode::scatter, "ring"});
            all.push_back(plan_of(machine, stages, 2, 8192));
        }
    return all;
}

// Starts more calls than may run at once, of repeating shapes. Each rank waits for them in another order.
void run_many(bool progress_thread) {
    options o;
    o.progress_thread = progress_thread;
    for (const plan& p : plans()) {
        std::atomic<int> wrong{0};
        const auto rank_main = [&](communicator& comm) {
            constexpr int calls = 40;
            std::vector<std::vector<double>> data;
            std::vector<request> requests;
            for (int c = 0; c < calls; ++c) {
                data.emplace_back(static_cast<std::size_t>(1 + 700 * (c % 5)), comm.rank() + c);
                requests.push_back(comm.allreduce_async(std::span(data.back())));
            }
            dice order(static_cast<std::uint64_t>(comm.rank()));
            std::vector<int> left(calls);
            for (int c = 0; c < calls; ++c) left[static_cast<std::size_t>(c)] = c;
            while (!left.empty()) {
                const auto at = static_cast<std::ptrdiff_t>(order.below(left.size()));
                const int c = left[static_cast<std::size_t>(at)];
                left.erase(left.begin() + at);
                if (c % 3 != 0) requests[static_cast<std::size_t>(c)].wait();
                else
                    while (!requests[static_cast<std::size_t>(c)].test()) std::this_thread::yield();
                const int n = comm.size();
                for (double x : data[static_cast<std::size_t>(c)]) wrong += x != n * (n - 1) / 2 + n * c;
            }
        };
        loopback::run(p, rank_main, o);
        EXPECT_EQ(wrong, 0) << data_of(p).text;
    }
}

}  // namespace

TEST(async, many_in_flight_complete_in_any_order) { run_many(false); }

TEST(progress_thread, completes_many_in_any_order) { run_many(true); }

// Rank 0's progress thread moves calls along while rank 0 does something else. The other ranks need that.
TEST(progress_thread, moves_calls_along) {
    options o;
    o.progress_thread = true;
    for (const plan& p : plans()) {
        std::atomic<int> through{0};
        loopback::run(
            p,
            [&](communicator& comm) {
                std::vector<int> data(20'000, 1);
                request r = comm.allreduce_async(std::span(data));
                if (comm.rank() == 0) {
                    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
                    while (through < comm.size() - 1 && std::chrono::steady_clock::now() < until)
                        std::this_thread::yield();
                    EXPECT_EQ(through, comm.size() - 1);
                }
                r.wait();
                ++through;
                EXPECT_EQ(std::count(data.begin(), data.end(), comm.size()), 20'000);
                const window<int> made = comm.allocate<int>(100);
                EXPECT_TRUE(comm.split(comm.rank() % 2).has_value());
            },
            o);
    }
}

TEST(progress_thread, ends_calls_at_their_deadline) {
    options o;
    o.progress_thread = true;
    o.check = options::checking::off;
    o.timeout = std::chrono::milliseconds(100);
    std::atomic<int> told{0}, left{0};
    loopback::run(
        plan_for(3),
        [&](communicator& comm) {
            std::vector<float> data(1000, 1);
            comm.allreduce(std::span(data));
            if (comm.rank() != 1) {
                try {
                    comm.allreduce(std::span(data));
                } catch (const timeout_error&) {
                    ++told;
                }
            }
            for (++left; left < 3;) std::this_thread::yield();  // rank 1 waits for the others
        },
        o);
    EXPECT_EQ(told, 2);
}

TEST(set_timeout, is_for_calls_in_flight_too) {
    std::atomic<int> told{0}, left{0};
    loopback::run(plan_for(3), [&](communicator& comm) {
        std::vector<float> data(1000, 1);
        EXPECT_THROW(comm.set_timeout(std::chrono::seconds(-1)), usage_error);
        if (comm.rank() != 1) {
            request call = comm.allreduce_async(std::span(data));
            comm.set_timeout(std::chrono::milliseconds(100));
            try {
                call.wait();
            } catch (const timeout_error& e) {
                told += std::string(e.what()).starts_with("timed out after 0.1 s") ? 1 : 0;
            }
        }
        for (++left; left < 3;) std::this_thread::yield();  // rank 1 waits for the others
    });
    EXPECT_EQ(told, 2);
}

// Rank 1 makes no call. On the other ranks a second thread calls abort(), before the call or while it waits: the call
// throws the same reason.
TEST(abort, ends_calls_that_nobody_answers) {
    std::atomic<int> ended{0};
    loopback::run(plan_for(3), [&](communicator& comm) {
        std::vector<float> data(1000, 1);
        if (comm.rank() == 1) {
            while (ended < 2) std::this_thread::yield();
            return comm.abort();
        }
        std::atomic<bool> waits{false};
        std::jthread other([&] {
            while (!waits) std::this_thread::yield();
            comm.abort();
        });
        std::string why;
        try {
            waits = true;
            comm.allreduce(std::span(data));
        } catch (const usage_error& e) {
            why = e.what();
        }
        ++ended;
        other.join();
        EXPECT_TRUE(why.ends_with("communicator::abort")) << why;
        EXPECT_THROW(comm.barrier(), usage_error);
    });
}

TEST(async, all_collectives) {
    loopback::run(plan_for(6), [&](communicator& comm) {
        const int n = comm.size(), me = comm.rank();
        const auto many = static_cast<std::size_t>(n);
        std::vector<int> ones(3 * many, 1), sums(3), mine(2, me), all(2 * many);
        std::vector<int> told(5, me == 2 ? 42 : 0), total(3 * many);
        std::vector<request> requests;
        requests.push_back(comm.reduce_scatter_async(ones, sums));
        requests.push_back(comm.allgather_async(mine, all));
        requests.push_back(comm.broadcast_async(told, 2));
        requests.push_back(comm.reduce_async(ones, total, 1));
        std::vector<int> asked(2 * many, me), answered(2 * many);
        requests.push_back(comm.alltoall_async(asked, answered));
        std::vector<int> gathered(me == 3 ? 2 * many : 0), dealt(2), deal(me == 1 ? 2 * many : 0, 9);
        requests.push_back(comm.gather_async(mine, gathered, 3));
        requests.push_back(comm.scatter_async(deal, dealt, 1));
        wait_all(requests);
        EXPECT_EQ(sums, std::vector<int>(3, n));
        for (int r = 0; r < n; ++r) EXPECT_EQ(all[static_cast<std::size_t>(2 * r)], r);
        EXPECT_EQ(answered, all);
        EXPECT_EQ(gathered, me == 3 ? all : std::vector<int>{});
        EXPECT_EQ(dealt, std::vector<int>(2, 9));
        EXPECT_EQ(told, std::vector<int>(5, 42));
        if (me == 1) {
            EXPECT_EQ(total, std::vector<int>(ones.size(), n));
        }
    });
}

// One rank compares a new shape while another rank still waits for the previous call.
TEST(async, comparing_calls_moves_others_along) {
    loopback::run(plan_for(3), [&](communicator& comm) {
        std::vector<float> first(50'000, 1), second(60'000, 1);
        request r = comm.allreduce_async(std::span(first));
        if (comm.rank() == 0) r.wait();
        request s = comm.allreduce_async(std::span(second));
        s.wait();
        r.wait();
        EXPECT_EQ(first.back() + second.back(), 6);
    });
}

TEST(async, a_request_is_complete_when_it_is_moved_from_or_waited_for) {
    loopback::run(plan_for(2), [&](communicator& comm) {
        request none;
        EXPECT_TRUE(none.test());
        none.wait();
        std::vector<float> data(100, 1);
        request first = comm.allreduce_async(std::span(data));
        request second = std::move(first);
        EXPECT_TRUE(first.test());  // NOLINT: tests a moved-from request
        second.wait();
        EXPECT_TRUE(second.test());
        EXPECT_EQ(data.front(), 2);
        { request dropped = comm.allreduce_async(std::span(data)); }
        EXPECT_EQ(data.front(), 4);
    });
}

TEST(async, a_request_that_outlives_its_communicator_says_so) {
    loopback::run(plan_for(2), [&](communicator& comm) {
        std::vector<float> data(100'000, 1);
        request waits, tests, dropped;
        {
            communicator part = *comm.split(0);
            waits = part.allreduce_async(std::span(data).first(1000));
            tests = part.allreduce_async(std::span(data).subspan(1000, 1000));
            dropped = part.allreduce_async(std::span(data).subspan(2000));
        }
        EXPECT_THROW(waits.wait(), usage_error);
        EXPECT_THROW(tests.test(), usage_error);
        EXPECT_TRUE(waits.test() && tests.test());
    });
}

TEST(async, a_second_call_allocates_nothing) {
    std::atomic<int> total{0};
    for (const plan& p : plans())
        loopback::run(p, [&](communicator& comm) {
            std::vector<float> data(5000, 1);
            for (int i = 0; i < 3; ++i) {
                const int before = allocations();
                comm.allreduce(std::span(data));
                if (i == 2) total += allocations() - before;
            }
        });
    EXPECT_EQ(total, 0);
}

}  // namespace terrace::detail::test::async_test
