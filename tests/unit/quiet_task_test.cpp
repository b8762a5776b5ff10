#include "base/quiet_task.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace terrace::detail::test::quiet_task_test {
namespace {

bool is_blocked(int signal) {
    sigset_t mask;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return ::sigismember(&mask, signal) == 1;
}

TEST(quiet_task, gets_no_signals) {
    const auto caller = std::this_thread::get_id();
    auto started = start_quiet_task([caller] { return is_blocked(SIGALRM) && std::this_thread::get_id() != caller; });
    EXPECT_FALSE(is_blocked(SIGALRM));
    EXPECT_TRUE(started.get());
}

TEST(quiet_task, hands_its_exception_over) {
    auto started = start_quiet_task([]() -> int { throw 7; });
    EXPECT_THROW(started.get(), int);
}

}  // namespace
}  // namespace terrace::detail::test::quiet_task_test
