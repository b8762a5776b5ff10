// Memory that calls borrow: its reuse, and the amount that is kept.

#include "executor/scratch_pool.hpp"

#include <utility>

#include <gtest/gtest.h>

namespace terrace::detail::scratch_pool_test {
namespace {

TEST(scratch_pool, lends_what_came_back) {
    scratch_pool pool;
    scratch_pool::block first = pool.acquire(1000);
    const std::byte* there = first.memory.get();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(there) % 64, 0u);
    const scratch_pool::block second = pool.acquire(1000);
    EXPECT_NE(second.memory.get(), there) << "the first one is in use";
    pool.release(std::move(first));
    EXPECT_EQ(pool.kept(), 1000u);
    EXPECT_EQ(pool.acquire(10).memory.get(), there);
    EXPECT_EQ(pool.kept(), 0u);
}

TEST(scratch_pool, lends_the_smallest_that_is_long_enough) {
    scratch_pool pool;
    std::vector<scratch_pool::block> all;
    for (const std::size_t bytes : {300, 100, 200}) all.push_back(pool.acquire(bytes));
    for (scratch_pool::block& b : all) pool.release(std::move(b));
    EXPECT_EQ(pool.acquire(150).bytes, 200u);
    EXPECT_EQ(pool.acquire(150).bytes, 300u);
    EXPECT_EQ(pool.kept(), 100u);
}

TEST(scratch_pool, calls_that_grow_leave_one_block) {
    scratch_pool pool;
    for (std::size_t bytes = 1; bytes <= 50; ++bytes) pool.release(pool.acquire(1000 * bytes));
    EXPECT_EQ(pool.kept(), 50'000u);
    for (std::size_t bytes = 50; bytes > 0; --bytes) pool.release(pool.acquire(1000 * bytes));
    EXPECT_EQ(pool.kept(), 50'000u);
}

TEST(scratch_pool, keeps_no_more_than_it_may) {
    scratch_pool pool;
    pool.keep(1000);
    scratch_pool::block small = pool.acquire(400), other = pool.acquire(700), large = pool.acquire(5000);
    pool.release(std::move(small));
    pool.release(std::move(large));
    EXPECT_EQ(pool.kept(), 400u) << "what can never be kept drives nothing else out";
    pool.release(std::move(other));
    EXPECT_EQ(pool.kept(), 700u) << "the one that came back first has gone";
    pool.keep(100);
    EXPECT_EQ(pool.kept(), 0u);
}

TEST(scratch_pool, says_where_there_is_no_memory) {
    scratch_pool pool;
    EXPECT_EQ(pool.acquire(std::size_t{1} << 60).memory, nullptr);
    EXPECT_NE(pool.acquire(64).memory, nullptr);
    try {
        take_memory(std::size_t{1} << 60, "a test");
        FAIL();
    } catch (const memory_error& e) {
        EXPECT_EQ(e.bytes(), std::size_t{1} << 60);
        EXPECT_EQ(std::string(e.what()).find("1048576 TiB of memory were wanted for a test"), 0u) << e.what();
    }
}

}  // namespace
}  // namespace terrace::detail::scratch_pool_test
