// Memory that processes share. Ranks are threads, and this file replaces some functions of libc.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/descriptor.hpp"
#include "base/index.hpp"
#include "support/temporary.hpp"
#include "transport/shared_region.hpp"
#include "transport/store_bootstrap.hpp"

namespace terrace::detail::test::posix_regions_test {
namespace {

// Error that posix_fallocate(3) returns; empty: it works as usual.
std::function<std::optional<int>(int file)> fallocate_does;
// True: processes are invisible to each other, as in different containers.
std::atomic<bool> processes_are_hidden{false};

}  // namespace
}  // namespace terrace::detail::test::posix_regions_test

extern "C" int posix_fallocate(int file, off_t begin, off_t bytes) {
    const auto& does = terrace::detail::test::posix_regions_test::fallocate_does;
    if (const std::optional<int> error = does ? does(file) : std::nullopt) return *error;
    return ::fallocate(file, 0, begin, bytes) == 0 ? 0 : errno;
}

extern "C" int stat(const char* path, struct stat* found) noexcept {
    if (terrace::detail::test::posix_regions_test::processes_are_hidden && std::string_view(path).starts_with("/proc/"))
        return errno = ENOENT, -1;
    return ::fstatat(AT_FDCWD, path, found, 0);
}

namespace terrace::detail::test::posix_regions_test {
namespace {

constexpr int ranks = 3;
constexpr std::size_t bytes = 8192;

std::size_t links_of(int file) {
    struct stat found {};
    return ::fstat(file, &found) == 0 ? found.st_nlink : 99;
}

class posix_regions_of_ranks : public testing::Test {
protected:
    void TearDown() override {
        fallocate_does = nullptr;
        processes_are_hidden = false;
    }

    // Shares memory of ranks 0 and 1 with each other; rank 2 is alone. Returns what each rank sees in the parts of its
    // node, as a letter per part. If all is well, it is the letter of the part's owner.
    std::vector<std::string> share() {
        const temporary_directory meeting;
        std::vector<std::string> seen(ranks);
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < ranks; ++rank)
            threads.emplace_back([&, rank] {
                team all(std::make_shared<store_bootstrap>(file_store(meeting.path(), rank, ranks), "directory",
                                                           std::chrono::seconds(60)),
                         rank, ranks);
                posix_regions memory([&](std::string_view why) {
                    const std::lock_guard lock(guard_);
                    warnings_.emplace_back(why);
                });
                const std::vector<int> sharers = rank < 2 ? std::vector{0, 1} : std::vector{2};
                const std::optional<shared_region> region = memory.share(all, sharers, bytes, bytes / 2);
                if (!region) return;
                const auto own = static_cast<std::size_t>(rank % 2);
                taken_[at(rank)] = region->take(bytes / 2, bytes / 2);
                std::memset(region->parts[own], 'a' + rank, bytes);
                char none = 0;
                std::vector<char> others(ranks);
                all.gather_all(&none, others.data(), 1);
                for (const std::byte* part : region->parts)
                    seen[at(rank)] += static_cast<char>(part[0] == part[bytes - 1] ? part[0] : std::byte{'?'});
                all.gather_all(&none, others.data(), 1);
            });
        threads.clear();
        return seen;
    }

    const std::vector<std::string> all_is_well_{"ab", "ab", "c"}, nothing_{"", "", ""};
    std::vector<std::string> warnings_;
    std::vector<int> taken_ = std::vector<int>(ranks, -1);

private:
    std::mutex guard_;
};

TEST_F(posix_regions_of_ranks, have_no_name) {
    std::atomic<std::size_t> links{0};
    fallocate_does = [&](int file) {
        links += links_of(file);
        return std::nullopt;
    };
    EXPECT_EQ(share(), all_is_well_);
    EXPECT_EQ(links, 0u);
    EXPECT_TRUE(warnings_.empty());
    EXPECT_EQ(taken_, std::vector<int>(ranks, 0));
}

// Then files of ended processes are removed, and files that other processes hold stay.
TEST_F(posix_regions_of_ranks, have_a_name_for_a_moment_where_processes_are_hidden) {
    const std::string left = "/dev/shm/terrace.left-" + std::to_string(::getpid()),
                      held = "/dev/shm/terrace.held-" + std::to_string(::getpid());
    const descriptor lock(::open(held.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
    std::ofstream(left).put('x');
    processes_are_hidden = true;
    std::vector<int> files;
    std::mutex guard;
    fallocate_does = [&](int file) {
        const std::lock_guard one(guard);
        files.push_back(::dup(file));
        return std::nullopt;
    };
    EXPECT_EQ(share(), all_is_well_);
    EXPECT_TRUE(warnings_.empty());
    for (const int file : files) {
        EXPECT_EQ(links_of(file), 0u);
        ::close(file);
    }
    EXPECT_FALSE(std::filesystem::exists(left));
    EXPECT_TRUE(std::filesystem::remove(held));
}

// Simulates a kernel that gives all memory back when a signal comes. With a timer in the program the call would never
// succeed unless signals are blocked.
TEST_F(posix_regions_of_ranks, take_memory_while_signals_come) {
    std::atomic<int> interruptions{0};
    fallocate_does = [&](int) -> std::optional<int> {
        sigset_t blocked;
        ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
        if (sigismember(&blocked, SIGPROF) == 1 && ++interruptions > 3) return std::nullopt;
        return EINTR;
    };
    EXPECT_EQ(share(), all_is_well_);
    EXPECT_GT(interruptions, 3);
}

TEST_F(posix_regions_of_ranks, say_why_there_is_none) {
    for (const int code : {ENOSPC, EIO}) {
        warnings_.clear();
        fallocate_does = [&](int) { return code; };
        EXPECT_EQ(share(), nothing_);
        ASSERT_EQ(warnings_.size(), 1u) << "one rank says so";
        EXPECT_EQ(warnings_[0], std::string("ranks of a node cannot share memory: /dev/shm, posix_fallocate: ") +
                                    std::strerror(code));
    }
}

}  // namespace
}  // namespace terrace::detail::test::posix_regions_test
