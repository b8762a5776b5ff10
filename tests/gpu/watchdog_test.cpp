#include "transport/nccl/watchdog.hpp"

#include <atomic>
#include <chrono>

#include <gtest/gtest.h>

namespace terrace::detail::test {

namespace {

using namespace std::chrono_literals;

void wait_until(const std::atomic<int>& n, int least) {
    while (n < least) std::this_thread::sleep_for(1ms);
}

}  // namespace

TEST(watchdog, looks_while_there_is_work_and_sleeps_otherwise) {
    std::mutex guard;
    std::atomic<int> starts{0}, looks{0};
    bool work = false;
    {
        watchdog dog(guard, {[&] { ++starts; }, [&] { return work; }, [&] { ++looks; }});
        wait_until(starts, 1);
        EXPECT_EQ(looks, 0);
        {
            const std::lock_guard lock(guard);
            work = true;
        }
        dog.wake();
        wait_until(looks, 3);
    }
    EXPECT_EQ(starts, 1);
}

// A watchdog may be destroyed with or without work.
TEST(watchdog, ends_at_once) {
    std::mutex guard;
    const auto began = std::chrono::steady_clock::now();
    for (const bool work : {false, true}) watchdog dog(guard, {[] {}, [=] { return work; }, [] {}});
    EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);
}

}  // namespace terrace::detail::test
