// Processes that end, stop and go on, as others see them without their help.

#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temporary.hpp"
#include "transport/liveness/acknowledgement.hpp"
#include "transport/liveness/lifelines.hpp"
#include "transport/liveness/process_watch.hpp"
#include "transport/store_bootstrap.hpp"

namespace terrace::detail::test::liveness_test {

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::duration<double> stopped_for(0.2);

// A process that waits to be ended, or does something and ends.
class child_process {
public:
    explicit child_process(const std::function<void()>& action = [] { pause(); }) : pid_(::fork()) {
        if (pid_ != 0) return;
        action();
        ::_exit(0);
    }
    child_process(const child_process&) = delete;
    child_process& operator=(const child_process&) = delete;
    ~child_process() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    void send(int number) const { ::kill(pid_, number); }
    process_id id() const { return {.rank = 7, .pid = pid_, .started = state_of(pid_)->started}; }

private:
    pid_t pid_;
};

// What is found until it is a failure, or else what is said to be of interest, or for long.
template <class Watch>
std::vector<sighting> look(Watch& watch, std::chrono::duration<double> patience,
                           evidence of_interest = evidence::process_left) {
    std::vector<sighting> found;
    const auto until = std::chrono::steady_clock::now() + patience;
    while (found.empty() && std::chrono::steady_clock::now() < until) {
        watch.look(std::chrono::steady_clock::now(), found);
        std::erase_if(found, [&](const sighting& s) { return s.by >= evidence::acknowledged && s.by != of_interest; });
        std::this_thread::sleep_for(1ms);
    }
    return found;
}

// Two ranks, on what is said to be a node each.
std::unique_ptr<lifelines> join(const temporary_directory& directory, int rank, std::chrono::duration<double> silence) {
    const auto by = std::make_shared<store_bootstrap>(file_store(directory.path(), rank, 2), "a directory", 20s);
    team ranks(by, rank, 2);
    return std::make_unique<lifelines>(ranks, std::vector{std::vector{0}, std::vector{1}}, silence);
}

}  // namespace

TEST(process_watch, reads_the_state_of_a_process) {
    const std::optional<process_state> own = state_of(::getpid());
    ASSERT_TRUE(own);
    EXPECT_EQ(own->letter, 'R');
    EXPECT_GT(own->started, 0u);
    EXPECT_FALSE(state_of(0));
}

TEST(process_watch, knows_a_process_that_ends_from_one_whose_first_thread_does) {
    const child_process one, other([] {
        std::thread(pause).detach();
        ::syscall(SYS_exit, 0);  // this thread alone
    });
    EXPECT_FALSE(is_ending(one.id().pid));
    while (state_of(other.id().pid)->letter != 'Z') std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(state_of(other.id().pid)->exits);
    EXPECT_FALSE(is_ending(other.id().pid));
    other.send(SIGKILL);
    while (!is_ending(other.id().pid)) std::this_thread::sleep_for(1ms);
    EXPECT_FALSE(is_ending(0));
}

TEST(process_watch, finds_a_process_that_has_ended_and_no_other) {
    const child_process one, other;
    const process_watch::farewell none{0};
    process_watch watch({one.id()}, 20s, {&none}), alone({other.id()}, stopped_for);
    EXPECT_TRUE(look(watch, 20ms).empty());
    one.send(SIGKILL);  // nobody has waited for it yet
    const std::vector<sighting> found = look(watch, 20s);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].rank, 7);
    EXPECT_EQ(found[0].by, evidence::process_ended);
    EXPECT_TRUE(look(alone, 20ms).empty());
}

TEST(process_watch, lets_a_process_end_that_has_said_farewell) {
    const child_process one;
    const process_watch::farewell said{1};
    process_watch watch({one.id()}, stopped_for, {&said});
    one.send(SIGKILL);
    EXPECT_TRUE(look(watch, stopped_for / 2).empty());
    EXPECT_EQ(look(watch, 20s, evidence::has_left).size(), 1u);
    const std::vector<sighting> found = look(watch, 20s);  // a rank that waits for it would not return
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].by, evidence::process_left);
}

TEST(process_watch, waits_where_nobody_can_say_farewell) {
    const child_process one;
    process_watch watch({one.id()}, stopped_for);
    one.send(SIGKILL);
    EXPECT_TRUE(look(watch, stopped_for / 2).empty());
    EXPECT_EQ(look(watch, 20s).size(), 1u);
}

TEST(process_watch, finds_a_process_that_is_stopped_for_long_enough) {
    const child_process one;
    process_watch watch({one.id()}, stopped_for);
    one.send(SIGSTOP);
    EXPECT_TRUE(look(watch, stopped_for / 4).empty());
    const std::vector<sighting> found = look(watch, 20s);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].by, evidence::stopped_by_signal);
    one.send(SIGCONT);
    std::this_thread::sleep_for(stopped_for / 4);
    EXPECT_TRUE(look(watch, stopped_for / 2).empty());
}

TEST(process_watch, knows_a_later_process_with_the_same_number) {
    const child_process one;
    process_id former = one.id();
    ++former.started;
    process_watch watch({former}, stopped_for);
    one.send(SIGSTOP);
    EXPECT_TRUE(look(watch, 2 * stopped_for).empty());
}

TEST(acknowledgement, is_missing_since_the_first_byte_that_nothing_came_back_for) {
    const acknowledgement::time_point begin{};
    acknowledgement a;
    a.sent(begin, 5);
    a.sent(begin + 1s, 5);
    a.look(begin + 2s, 2, 5);
    EXPECT_EQ(a.missing_since(), begin);
    EXPECT_FALSE(a.last());
    a.look(begin + 3s, 0, 7);
    EXPECT_FALSE(a.missing_since());
    EXPECT_EQ(a.last(), begin);
}

// A rank that computes for long looks again while its other thread has just sent a reply, which is on the way.
TEST(acknowledgement, of_an_old_byte_is_not_missing_where_a_new_one_is_on_the_way) {
    const acknowledgement::time_point begin{};
    acknowledgement a;
    a.sent(begin, 5);
    a.look(begin + 80s, 1, 6);
    EXPECT_EQ(a.missing_since(), begin + 80s);
    EXPECT_EQ(a.last(), begin);
    a.look(begin + 81s, 1, 6);
    EXPECT_EQ(a.missing_since(), begin + 80s);
}

// Rank 1 looks at nothing: it computes.
TEST(lifelines, find_a_process_that_is_stopped_and_none_that_computes) {
    const temporary_directory directory;
    const child_process other([&] {
        const auto own = join(directory, 1, 0.4s);
        pause();
    });
    const auto own = join(directory, 0, 0.4s);
    if (own->ends().empty()) GTEST_SKIP() << "no network interface but loopback";
    EXPECT_TRUE(look(*own, 1s).empty());
    other.send(SIGSTOP);
    const std::vector<sighting> found = look(*own, 20s);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].rank, 1);
    EXPECT_EQ(found[0].by, evidence::silent);
    other.send(SIGCONT);
    std::this_thread::sleep_for(200ms);
    EXPECT_TRUE(look(*own, 1s).empty());
}

TEST(lifelines, tell_the_end_of_a_process_from_its_farewell) {
    for (const bool farewell : {false, true}) {
        const temporary_directory directory;
        const child_process other([&] {
            auto own = join(directory, 1, 1s);
            if (!farewell) own.release();  // NOLINT(bugprone-unused-return-value): as if it were killed
            else own.reset();
        });
        const auto own = join(directory, 0, 1s);
        if (own->ends().empty()) GTEST_SKIP() << "no network interface but loopback";
        if (farewell) {
            EXPECT_FALSE(look(*own, 20s, evidence::has_left).empty());
        }
        const std::vector<sighting> found = look(*own, 20s);
        ASSERT_FALSE(found.empty());
        EXPECT_EQ(found[0].by, farewell ? evidence::process_left : evidence::connection_closed);
    }
}

}  // namespace terrace::detail::test::liveness_test
