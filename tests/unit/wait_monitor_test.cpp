// The work of a rank that waits: it writes dumps, and gives up at the deadline.

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "api/wait_monitor.hpp"
#include "support/refusal.hpp"
#include "support/temporary.hpp"
#include "transport/loopback/loopback_transport.hpp"

namespace terrace::detail::test::wait_monitor_test {

namespace {

const call_shape one_float{.count = 1, .counts = {}};

// Lets rank 0 of two start a call that rank 1 never makes, and returns the error message.
std::string wait_for_rank_1(const options& o, const std::function<void()>& meanwhile) {
    loopback_world world(std::vector{2});
    endpoint net(world.join(0), engine::request_slots(1));
    const rank_numbers ranks{.own = 7, .callers = {7, 8}};
    const plan_data plan;
    call_reports reports(plan, o, ranks);
    engine calls(net, 1, reports.events());
    call_groups groups(false);
    std::unique_ptr<wait_monitor> monitor;
    control_plane control(
        net, calls, 0, ranks.callers, reports.events(), o, [] {},
        [&] {
            meanwhile();
            monitor->watch();
        });
    monitor = std::make_unique<wait_monitor>(wait_monitor::subject{control, calls, groups, reports, ranks}, o);
    return refusal_of<timeout_error>([&] { control.call_order.start_and_wait(one_float, signature_of(one_float)); });
}

}  // namespace

TEST(wait_monitor, gives_up_at_the_deadline_and_says_what_it_waits_for) {
    options o;
    o.timeout = std::chrono::milliseconds(20);
    const std::string said = wait_for_rank_1(o, [] {});
    EXPECT_TRUE(
        said.starts_with("timed out after 0.02 s (options::timeout), waiting for rank 8, which does not "
                         "answer: allreduce of 1 float32, sum (call 1): rank 8 has not made this call"))
        << said;
}

TEST(wait_monitor, writes_a_dump_when_sigusr1_asks_for_one) {
    const std::filesystem::path file = temporary("dump.7.json");
    options o;
    o.timeout = std::chrono::seconds(20);
    o.dump_file = file.parent_path() / file.stem().stem();
    bool asked = false;
    wait_for_rank_1(o, [&] {
        if (!std::exchange(asked, true)) std::raise(SIGUSR1);
        else if (std::filesystem::exists(file)) o.timeout = std::chrono::milliseconds(1);
    });
    EXPECT_TRUE(std::filesystem::exists(file));
}

TEST(wait_monitor, a_message_names_all_ranks_and_the_first_operations) {
    EXPECT_EQ(timeout_message(2, {{"a"}, {3}}, -1), "timed out after 2 s (options::timeout), waiting for rank 3: a");
    EXPECT_EQ(timeout_message(0.5, {{"a", "b", "c", "d", "e"}, {3, 5}}, -1),
              "timed out after 0.5 s (options::timeout), waiting for ranks 3, 5: a; b; c; and 2 more");
    EXPECT_EQ(timeout_message(2, {{"a"}, {0, 1}}, 2, true, std::vector{4, 5, 7}),
              "timed out after 2 s (options::timeout), waiting for ranks 0-1 (ranks 4-5 of the world), in the end for "
              "rank 2 (rank 7 of the world), which has not made the call: a");
    EXPECT_EQ(timeout_message(2, {{"a"}, {1}}, -1, true, std::vector{0, 1, 7}),
              "timed out after 2 s (options::timeout), waiting for rank 1: a");
}

TEST(wait_monitor, a_message_names_the_rank_that_does_not_answer) {
    EXPECT_EQ(timeout_message(2, {{"a"}, {3}}, 3),
              "timed out after 2 s (options::timeout), waiting for rank 3, which does not answer: a");
    EXPECT_EQ(timeout_message(2, {{"a"}, {3}}, 0),
              "timed out after 2 s (options::timeout), waiting for rank 3, in the end for rank 0, which does not "
              "answer: a");
}

}  // namespace terrace::detail::test::wait_monitor_test
