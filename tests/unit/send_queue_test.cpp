#include "bench/smpi/send_queue.hpp"

#include <gtest/gtest.h>

namespace terrace::detail::send_queue_test {

namespace {

send_queue::message to(int peer, int slot) {
    return {.slot = slot, .peer = peer, .tag = 0, .from = nullptr, .bytes = 8};
}

TEST(send_queue, messages_to_one_peer_leave_one_after_the_other_in_order) {
    send_queue q;
    EXPECT_TRUE(q.may_leave(to(3, 0)));
    EXPECT_FALSE(q.may_leave(to(3, 1)));
    EXPECT_FALSE(q.may_leave(to(3, 2)));
    EXPECT_TRUE(q.may_leave(to(4, 3)));  // another peer's line is its own
    EXPECT_FALSE(q.next());
    q.left(3);
    ASSERT_EQ(q.next()->slot, 1);
    EXPECT_FALSE(q.next());  // that one is on its way
    q.left(4);
    EXPECT_FALSE(q.next());
    q.left(3);
    ASSERT_EQ(q.next()->slot, 2);
    q.left(3);
    EXPECT_FALSE(q.next());
    EXPECT_TRUE(q.may_leave(to(3, 5)));
    EXPECT_TRUE(q.may_leave(to(4, 6)));
}

TEST(send_queue, one_that_has_just_left_goes_first) {
    send_queue q;
    EXPECT_TRUE(q.may_leave(to(1, 0)));
    q.left(1);
    EXPECT_TRUE(q.may_leave(to(1, 1)));  // before anybody asked what is next
    EXPECT_FALSE(q.may_leave(to(1, 2)));
    EXPECT_FALSE(q.next());
    q.left(1);
    EXPECT_EQ(q.next()->slot, 2);
}

}  // namespace

}  // namespace terrace::detail::send_queue_test
