// Point-to-point messages: guarantees of sends, wrong calls, deadlines, threads and traces.

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <terrace/loopback.hpp>

#include "control/messages/point_to_point.hpp"
#include "support/bad_calls.hpp"
#include "support/refusal.hpp"
#include "support/temporary.hpp"

namespace terrace::detail::test::messages_test {

namespace {}  // namespace

// The sends complete although the receiver makes no call until then.
TEST(messages, short_ones_are_sent_before_they_are_received) {
    std::atomic<bool> sent{false};
    loopback::run(plan_for(2), [&](communicator& comm) {
        std::vector<std::byte> data(point_to_point::eager_bytes, std::byte{1});
        if (comm.rank() == 0) {
            for (int i = 0; i < point_to_point::eager_copies; ++i) comm.send(data, 1, i);
            for (int i = 0; i < point_to_point::window - point_to_point::eager_copies; ++i)
                comm.send(std::span(data).first(point_to_point::inline_bytes), 1, 100 + i);
            std::fill(data.begin(), data.end(), std::byte{2});
            sent = true;
        } else {
            while (!sent) std::this_thread::yield();
            for (int i = point_to_point::eager_copies - 1; i >= 0; --i) {
                comm.recv(data, 0, i);
                EXPECT_EQ(data, std::vector<std::byte>(data.size(), std::byte{1})) << i;
            }
            for (int i = 0; i < point_to_point::window - point_to_point::eager_copies; ++i)
                EXPECT_EQ(comm.recv(data, 0, 100 + i).count, 16);
        }
    });
}

// The window bounds the receiver's memory.
TEST(messages, beyond_the_window_a_send_waits_for_the_receiver) {
    std::atomic<bool> looked{false};
    loopback::run(plan_for(2), [&](communicator& comm) {
        int x = 1;
        if (comm.rank() == 0) {
            std::vector<request> requests;
            for (int i = 0; i <= point_to_point::window; ++i)
                requests.push_back(comm.send_async(std::span<const int>(&x, 1), 1));
            EXPECT_TRUE(requests[point_to_point::window - 1].test());
            EXPECT_FALSE(requests[point_to_point::window].test());
            looked = true;
            wait_all(requests);
        } else {
            while (!looked) std::this_thread::yield();
            for (int i = 0; i <= point_to_point::window; ++i) comm.recv(std::span(&x, 1), 0);
        }
    });
}

TEST(messages, that_nobody_receives_do_not_hold_up_the_end) {
    loopback::run(plan_for(3), [](communicator& comm) {
        const std::vector<double> data(500, 1);
        for (int r = 0; r < 3; ++r) comm.send(data, r, 9);
    });
}

TEST(messages, that_are_sent_arrive_after_the_sender_has_gone) {
    loopback::run(plan_for(2), [](communicator& comm) {
        std::vector<double> data(500, 1);
        if (comm.rank() == 0) return comm.send(data, 1);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        EXPECT_EQ(comm.recv(data, 0).count, 500);
    });
}

TEST(messages, wrong_calls_are_refused_on_one_rank_alone) {
    loopback::run(plan_for(2), [](communicator& comm) {
        if (comm.rank() == 0) {
            std::vector<float> data(3);
            EXPECT_EQ(refusal_of<usage_error>([&] { comm.send(data, 2); }), "send: rank is 2, but ranks are 0 to 1");
            EXPECT_EQ(refusal_of<usage_error>([&] { comm.send(data, any_source); }),
                      "send: rank is -1, but ranks are 0 to 1; a send has one receiver");
            EXPECT_EQ(refusal_of<usage_error>([&] { comm.recv(data, -2); }),
                      "recv: rank is -2, but ranks are 0 to 1, or any_source");
            EXPECT_EQ(refusal_of<usage_error>([&] { comm.recv(data, 1, -1); }),
                      "recv: tag is -1; it must not be negative");
            EXPECT_EQ(refusal_of<usage_error>([&] { comm.send(nullptr, 3, element_type::float32, 1, 0); }),
                      "send: the buffer is null, but count is 3");
            EXPECT_EQ(refusal_of<usage_error>([&] { comm.send(data.data(), -3, element_type::float32, 1, 0); }),
                      "send: count is -3; it must not be negative");
        }
        std::vector<int> ones(10, 1);
        comm.allreduce(ones);
        EXPECT_EQ(ones[9], 2);
    });
}

TEST(messages, deadlines_name_whom_a_rank_waits_for) {
    options o;
    o.timeout = std::chrono::milliseconds(60);
    std::atomic<int> left{0};
    std::array<std::string, 3> said;
    loopback::run(
        plan_for(3),
        [&](communicator& comm) {
            std::vector<float> data(100'000, 1);
            try {
                if (comm.rank() == 0) comm.recv(data, 2, 7);
                if (comm.rank() == 1) comm.send(data, 2, 8);
            } catch (const timeout_error& e) {
                said[static_cast<std::size_t>(comm.rank())] = e.what();
            }
            for (++left; left < 3;) std::this_thread::yield();
        },
        o);
    EXPECT_NE(said[0].find("recv from rank 2, tag 7: it has not sent it"), std::string::npos) << said[0];
    EXPECT_NE(said[1].find("send to rank 2, tag 8: it has not received all of it"), std::string::npos) << said[1];
}

// A rank with a posted receive, as in servers, does not count as waiting.
TEST(messages, a_receive_that_nobody_waits_for_has_no_deadline) {
    options o;
    o.timeout = std::chrono::milliseconds(50);
    loopback::run(
        plan_for(2),
        [](communicator& comm) {
            std::vector<float> data(100, 1);
            request posted;
            if (comm.rank() == 0) posted = comm.recv_async(data, 1);
            const auto begin = std::chrono::steady_clock::now();
            for (int more = 1; more == 1;) {
                more = comm.rank() == 0 && std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(120);
                comm.allreduce(std::span(&more, 1), reduce_op::max);
            }
            if (comm.rank() == 1) comm.send(data, 0);
            posted.wait();
        },
        o);
}

TEST(messages, move_along_by_the_progress_thread) {
    options o;
    o.progress_thread = true;
    loopback::run(
        plan_for(2),
        [](communicator& comm) {
            std::vector<int> data(200'000, comm.rank());
            for (int i = 0; i < 5; ++i) {
                if (comm.rank() == 0) {
                    request r = comm.send_async(std::as_const(data), 1);
                    std::this_thread::sleep_for(std::chrono::milliseconds(2));
                    r.wait();
                } else {
                    EXPECT_EQ(comm.recv(data, any_source).count, 200'000);
                    EXPECT_EQ(data.back(), 0);
                }
            }
        },
        o);
}

TEST(messages, are_in_traces_on_rows_without_overlap) {
    const temporary_directory folder;
    options o;
    o.trace_file = folder.path() / "trace";
    loopback::run(
        plan_for(2),
        [](communicator& comm) {
            std::vector<float> data(50'000, 1), other(10);
            request first = comm.recv_async(data, 1 - comm.rank(), 3);
            request second = comm.recv_async(other, 1 - comm.rank(), 4);
            const std::vector<float> mine(40'000);
            comm.send(mine, 1 - comm.rank(), 3);
            comm.send(std::span(mine).first(10), 1 - comm.rank(), 4);
            first.wait();
            second.wait();
        },
        o);
    std::multiset<std::string> names;
    std::ifstream in(o.trace_file);
    for (const nlohmann::json& e : nlohmann::json::parse(in))
        if (e["ph"] == "X") names.insert(e["name"].get<std::string>());
    EXPECT_EQ(names.count("send to rank 1, tag 3, 160000 bytes"), 1u);
    EXPECT_EQ(names.count("recv from rank 1, tag 4, 40 bytes"), 1u);
    EXPECT_EQ(names.size(), 8u);
}

}  // namespace terrace::detail::test::messages_test
