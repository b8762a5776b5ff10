#include "executor/call_buffers.hpp"

#include <array>

#include <gtest/gtest.h>

namespace terrace::detail::test::real_blocks_test {

namespace {

// Chunks of 4 elements. Blocks have at most 10 elements; their lengths are 6, 0, 10 and 1.
TEST(real_blocks, gives_each_chunk_what_there_is_of_a_block) {
    real_blocks blocks;
    blocks.assign(10, std::array<std::int64_t, 4>{6, 0, 10, 1});
    const auto part_of = [&](int block, std::int64_t begin, std::int64_t count) {
        return blocks.part_of({10 * block, 10 * block + count}, begin, begin + count == 10);
    };
    EXPECT_EQ(part_of(0, 0, 4), (range{0, 4}));
    EXPECT_EQ(part_of(0, 4, 4), (range{4, 6}));
    EXPECT_TRUE(part_of(0, 8, 2).empty());
    EXPECT_TRUE(part_of(1, 0, 4).empty());
    EXPECT_EQ(part_of(2, 0, 4), (range{6, 10}));
    EXPECT_EQ(part_of(2, 4, 4), (range{10, 14}));
    EXPECT_EQ(part_of(2, 8, 2), (range{14, 16}));
    EXPECT_EQ(part_of(3, 0, 4), (range{16, 17}));
}

TEST(real_blocks, in_one_piece_are_as_long_as_they_are) {
    real_blocks blocks;
    blocks.assign(1, std::array<std::int64_t, 2>{300, 5});
    EXPECT_EQ(blocks.part_of({0, 1}, 0, true), (range{0, 300}));
    EXPECT_EQ(blocks.part_of({1, 2}, 0, true), (range{300, 305}));
}

}  // namespace

}  // namespace terrace::detail::test::real_blocks_test
