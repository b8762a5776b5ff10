// Detection of processes that end, stop and continue, without their help.

#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "support/temporary.hpp"
#include "transport/liveness/lifelines.hpp"
#include "transport/liveness/process_watch.hpp"
#include "transport/store_bootstrap.hpp"

namespace terrace::detail::test::liveness_test {

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::duration<double> stopped_for(0.2);

// A process that waits until it is killed, or runs `action` and ends.
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

// Watches until a failure, or evidence `of_interest`, is found, or for `patience`. Returns the sightings.
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

network_interface loopback() { return {.name = "lo", .address = ::inet_addr("127.0.0.1")}; }

// Returns the lifelines of a rank of two, which are treated as ranks of two nodes.
std::unique_ptr<lifelines> join(const store& meeting, std::chrono::duration<double> silence, port_range ports = {}) {
    const auto by = std::make_shared<store_bootstrap>(meeting, "a directory", 20s);
    team ranks(by, meeting.rank, 2);
    return std::make_unique<lifelines>(ranks, std::vector{std::vector{0}, std::vector{1}}, silence, loopback(), ports);
}

std::unique_ptr<lifelines> join(const temporary_directory& directory, int rank, std::chrono::duration<double> silence) {
    return join(file_store(directory.path(), rank, 2), silence);
}

descriptor connected_to(int port) {
    descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = loopback().address;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 ? std::move(fd) : descriptor();
}

// Returns ports that are free now at all addresses.
port_range some_ports(int count) {
    for (int first = 20000 + ::getpid() % 10000; first < 32000; first += count)
        if (free_ports(0, {first, first + count - 1}, count) == count) return {first, first + count - 1};
    return {};
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
        ::syscall(SYS_exit, 0);  // ends only this thread
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
    const process_watch::shutdown_flag none{0};
    process_watch watch({one.id()}, 20s, {&none}), alone({other.id()}, stopped_for);
    EXPECT_TRUE(look(watch, 20ms).empty());
    one.send(SIGKILL);  // no process has called wait for it yet
    const std::vector<sighting> found = look(watch, 20s);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].rank, 7);
    EXPECT_EQ(found[0].by, evidence::process_ended);
    EXPECT_TRUE(look(alone, 20ms).empty());
}

TEST(process_watch, lets_a_process_end_that_has_announced_its_shutdown) {
    const child_process one;
    const process_watch::shutdown_flag sent{1};
    process_watch watch({one.id()}, stopped_for, {&sent});
    one.send(SIGKILL);
    EXPECT_TRUE(look(watch, stopped_for / 2).empty());
    EXPECT_EQ(look(watch, 20s, evidence::has_left).size(), 1u);
    const std::vector<sighting> found = look(watch, 20s);  // a rank that waits for it would never return
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].by, evidence::process_left);
}

TEST(process_watch, waits_where_no_process_can_announce_its_shutdown) {
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

// A rank that has computed for long looks again just after its other thread has sent a reply, which is in flight.
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

// Rank 1 computes, and makes no progress.
TEST(lifelines, find_a_process_that_is_stopped_and_none_that_computes) {
    const temporary_directory directory;
    const child_process other([&] {
        const auto own = join(directory, 1, 0.4s);
        pause();
    });
    const auto own = join(directory, 0, 0.4s);
    ASSERT_FALSE(own->ends().empty());
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

TEST(lifelines, tell_the_end_of_a_process_from_its_shutdown) {
    for (const bool shutdown : {false, true}) {
        const temporary_directory directory;
        const child_process other([&] {
            auto own = join(directory, 1, 1s);
            if (!shutdown) own.release();  // NOLINT(bugprone-unused-return-value): as if it were killed
            else own.reset();
        });
        const auto own = join(directory, 0, 1s);
        ASSERT_FALSE(own->ends().empty());
        if (shutdown) {
            EXPECT_FALSE(look(*own, 20s, evidence::has_left).empty());
        }
        const std::vector<sighting> found = look(*own, 20s);
        ASSERT_FALSE(found.empty());
        EXPECT_EQ(found[0].by, shutdown ? evidence::process_left : evidence::connection_closed);
    }
}

// The strangers connect before the other rank does.
TEST(lifelines, are_made_however_many_others_call_and_say_nothing_or_another_key) {
    const temporary_directory directory;
    const port_range ports = some_ports(1);
    const std::string wrong(24, 'x');  // as long as a greeting
    std::vector<descriptor> strangers;
    store knocking = file_store(directory.path(), 0, 2);
    knocking.get = [&, get = knocking.get](const std::string& key) {
        std::optional<std::string> value = get(key);
        while (value && strangers.size() < 200) {
            descriptor one = connected_to(ports.first);
            if (!one) break;  // rank 1 does not listen yet
            if (strangers.size() % 2 == 1) {
                EXPECT_EQ(::send(one.get(), wrong.data(), wrong.size(), 0), static_cast<ssize_t>(wrong.size()));
            }
            strangers.push_back(std::move(one));
        }
        return value;
    };
    std::unique_ptr<lifelines> other;
    std::thread rank_1([&] { other = join(file_store(directory.path(), 1, 2), 20s, ports); });
    const auto own = join(knocking, 20s);
    rank_1.join();
    EXPECT_EQ(strangers.size(), 200u);
    EXPECT_EQ(own->ends(), (std::vector{1, 1}));
    EXPECT_EQ(other->ends(), (std::vector{0, 0}));
    EXPECT_TRUE(own->missing().empty());
    EXPECT_FALSE(connected_to(ports.first)) << "it still listens";
}

TEST(lifelines, say_which_ports_are_all_in_use) {
    const temporary_directory directory;
    const port_range ports = some_ports(2);
    const descriptor first = listen_at(loopback().address, ports), second = listen_at(loopback().address, ports);
    EXPECT_FALSE(listen_at(loopback().address, ports));
    const auto failure_of_rank = [&](int rank, port_range of_rank) -> std::string {
        try {
            join(file_store(directory.path(), rank, 2), 1s, of_rank);
        } catch (const transport_error& e) {
            return e.what();
        }
        return "none";
    };
    std::string other;
    std::thread rank_1([&] { other = failure_of_rank(1, {}); });
    const std::string own = failure_of_rank(0, ports);
    rank_1.join();
    EXPECT_NE(own.find("rank 0 finds no free port from " + text_of(ports)), std::string::npos) << own;
    EXPECT_NE(own.find("TERRACE_PORTS"), std::string::npos) << own;
    EXPECT_EQ(other, own);
}

}  // namespace terrace::detail::test::liveness_test
