// Programs that a communicator keeps, and programs that it drops.

#include <set>

#include <gtest/gtest.h>

#include "calls/program_cache.hpp"

namespace terrace::detail::test::program_cache_test {

namespace {

struct numbered {
    std::size_t bytes() const noexcept { return size; }
    std::unique_ptr<int> number;
    std::size_t size = 1;
};
struct cache : program_cache<numbered> {
    explicit cache(std::size_t most_bytes = 1000) noexcept : program_cache<numbered>(most_bytes) {}

    // Returns the program of a shape, which does not count as a use.
    const entry* find(const call_shape& shape) noexcept {
        const entry* found = nullptr;
        use(shape, [&](const entry& e) {
            if (found == nullptr) found = &e;
            return false;
        });
        return found;
    }
};

call_shape shape_of(int count) { return {.count = count, .counts = {}}; }

cache::entry made(int count, std::uint64_t last_call = 0) {
    return {shape_of(count), signature_of(shape_of(count)), false, {std::make_unique<int>(count)}, last_call};
}

bool all_done(std::uint64_t) { return true; }

}  // namespace

TEST(program_cache, finds_programs_by_shape_and_property) {
    cache c;
    EXPECT_EQ(c.find(shape_of(1)), nullptr);
    c.add(made(1), all_done);
    c.add(made(2), all_done);
    ASSERT_NE(c.find(shape_of(1)), nullptr);
    EXPECT_EQ(*c.find(shape_of(1))->run.number, 1);
    EXPECT_EQ(c.find(shape_of(1))->signature, signature_of(shape_of(1)));
    EXPECT_EQ(c.use(shape_of(2), [](const cache::entry& e) { return e.peers_reach_it; }), nullptr);
    EXPECT_EQ(c.use(shape_of(3)), nullptr);
}

TEST(program_cache, two_programs_may_have_one_shape) {
    cache c;
    c.add(made(1, 7), all_done).peers_reach_it = true;
    c.add(made(1, 8), all_done);
    const auto with = [&](bool reach) {
        return c.use(shape_of(1), [&](const cache::entry& e) { return e.peers_reach_it == reach; })->last_call;
    };
    EXPECT_EQ(with(true), 7u);
    EXPECT_EQ(with(false), 8u);
}

TEST(program_cache, drops_what_was_used_longest_ago) {
    cache c;
    const int capacity = static_cast<int>(cache::usual_capacity);
    for (int i = 0; i < capacity; ++i) c.add(made(i), all_done);
    const int* first = c.use(shape_of(0))->run.number.get();
    EXPECT_NE(c.find(shape_of(1)), nullptr);  // does not count as a use
    c.add(made(capacity), all_done);
    EXPECT_EQ(c.size(), cache::usual_capacity);
    EXPECT_EQ(c.find(shape_of(1)), nullptr);
    ASSERT_NE(c.find(shape_of(0)), nullptr);
    EXPECT_EQ(c.find(shape_of(0))->run.number.get(), first);  // address is unchanged
}

TEST(program_cache, keeps_as_many_as_it_is_asked_to) {
    cache c;
    c.keep(40);
    c.keep(35);
    for (int i = 0; i < 50; ++i) c.add(made(i), all_done);
    EXPECT_EQ(c.size(), 40u);
    EXPECT_EQ(c.find(shape_of(9)), nullptr);
    EXPECT_NE(c.find(shape_of(10)), nullptr);
}

TEST(program_cache, keeps_programs_in_use_beyond_its_capacity) {
    cache c;
    const int many = static_cast<int>(cache::usual_capacity) + 8;
    std::set<std::uint64_t> running;
    const auto done = [&](std::uint64_t call) { return !running.contains(call); };
    for (int i = 0; i < many; ++i) {
        running.insert(static_cast<std::uint64_t>(i) + 1);
        c.add(made(i, static_cast<std::uint64_t>(i) + 1), done);
    }
    EXPECT_EQ(c.size(), static_cast<std::size_t>(many));
    running = {1};
    c.add(made(many), done);
    EXPECT_EQ(c.size(), cache::usual_capacity);
    EXPECT_NE(c.find(shape_of(0)), nullptr);
    EXPECT_EQ(c.find(shape_of(1)), nullptr);
}

TEST(program_cache, drops_what_exceeds_its_bytes_and_is_not_in_use) {
    cache c(100);
    const auto add = [&](int count, std::size_t size, auto done) {
        cache::entry e = made(count, static_cast<std::uint64_t>(count));
        e.run.size = size;
        c.add(std::move(e), done);
    };
    add(1, 40, all_done);
    add(2, 40, all_done);
    EXPECT_EQ(c.bytes(), 80u);
    add(3, 40, [](std::uint64_t call) { return call != 1; });
    EXPECT_NE(c.find(shape_of(1)), nullptr) << "in use";
    EXPECT_EQ(c.find(shape_of(2)), nullptr);
    EXPECT_EQ(c.bytes(), 80u);
    add(4, 500, all_done);
    EXPECT_EQ(c.size(), 1u) << "the new one is there in any case";
    EXPECT_NE(c.find(shape_of(4)), nullptr);
    add(5, 10, all_done);
    EXPECT_EQ(c.bytes(), 10u);
}

TEST(program_cache, keeps_programs_for_ever_where_that_is_asked_for) {
    static int destroyed = 0;
    struct counted {
        ~counted() { destroyed += value; }
        int value = 1;
    };
    struct owner {
        static std::size_t bytes() noexcept { return 1; }
        std::unique_ptr<counted> of;
    };
    {
        program_cache<owner> c(1000);
        c.add({.shape = shape_of(1), .run = {std::make_unique<counted>()}}, all_done);
        c.keep_for_ever();
        EXPECT_EQ(c.size(), 0u);
    }
    EXPECT_EQ(destroyed, 0);
}

}  // namespace terrace::detail::test::program_cache_test
