// Groups: positions modulo the size, shards of several positions, and views of one group by its members.

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "schedule/group.hpp"

namespace terrace::detail::group_test {
namespace {

group four() { return {{3, 5, 7, 9}, {{0, 2}, {2, 4}, {4, 6}, {6, 8}}, 2}; }

TEST(group, positions_are_counted_around_it) {
    const group g = four().seen_from(3);
    EXPECT_EQ(g.next(), 3);
    EXPECT_EQ(g.prev(), 7);
    EXPECT_EQ(g.rank(-1), 9);
    EXPECT_EQ(g.shard(5), (range{2, 4}));
    EXPECT_EQ(g.own_shard(), (range{6, 8}));
    EXPECT_EQ(g.whole(), (range{0, 8}));
}

TEST(group, shards_from_wraps_around_in_two_ranges) {
    EXPECT_EQ(four().shards_from(1, 2), (std::array{range{2, 6}, range{0, 0}}));
    EXPECT_EQ(four().shards_from(3, 2), (std::array{range{6, 8}, range{0, 2}}));
    EXPECT_EQ(four().shards_from(-1, 4), (std::array{range{6, 8}, range{0, 6}}));
}

TEST(group, members_see_the_same_lists) {
    const group g = four(), seven = g.seen_by(7);
    EXPECT_EQ(seven.position(), 2);
    EXPECT_TRUE(seven.is_root());
    EXPECT_EQ(&seven.members(), &g.members());
    EXPECT_NE(seven, g);
    EXPECT_EQ(seven.seen_from(0), g);
    EXPECT_TRUE(g.contains(9));
    EXPECT_FALSE(g.contains(4));
}

TEST(group, is_equal_to_one_of_the_same_content) {
    EXPECT_EQ(four(), four());
    EXPECT_NE(four(), four().with_shards({{0, 3}, {3, 4}, {4, 6}, {6, 8}}));
    EXPECT_EQ(group::numbered(2), group({0, 1}, {{0, 1}, {1, 2}}));
}

}  // namespace
}  // namespace terrace::detail::group_test
