// The time of a call in chunks and lanes.

#include <gtest/gtest.h>

#include "planner/price.hpp"

namespace terrace::detail::test::pipeline_test {
namespace {

TEST(pipeline, cuts_a_vector_into_chunks) {
    EXPECT_EQ(chunks_of(1000, 0), 1);
    EXPECT_EQ(chunks_of(1000, 1000), 1);
    EXPECT_EQ(chunks_of(1001, 1000), 2);
    EXPECT_EQ(chunks_of(1, 1000), 1);
}

// One chunk takes its time, with any number of lanes.
TEST(pipeline, of_one_chunk) {
    const pipeline p{.chunks = 1, .chunk_time = 10, .busiest = 4, .lane_time = 10};
    for (const int lanes : {1, 2, 8}) EXPECT_EQ(p.time(lanes), 10);
}

// In one lane chunks run one after another. With enough lanes the busiest resource decides how often a chunk ends.
TEST(pipeline, overlaps_chunks_in_lanes) {
    const pipeline p{.chunks = 5, .chunk_time = 10, .busiest = 2, .lane_time = 10};
    EXPECT_EQ(p.time(1), 5 * 10);
    EXPECT_EQ(p.time(2), 10 + 2 * 10);  // chunks 3 and 5 wait for 1 and 3
    EXPECT_EQ(p.time(3), 10 + 10 + 2);  // chunk 4 waits for chunk 1, and 5 ends after it
    EXPECT_EQ(p.time(4), 10 + 10);      // chunk 5 waits for chunk 1
    EXPECT_EQ(p.time(5), 10 + 4 * 2);
    EXPECT_EQ(p.time(9), 10 + 4 * 2);
}

// A chunk that moves to or from a root leaves a rank's lane long before the chunk ends.
TEST(pipeline, lanes_are_free_once_a_chunk_has_left_a_rank) {
    const pipeline p{.chunks = 5, .chunk_time = 100, .busiest = 4, .lane_time = 8};
    EXPECT_EQ(p.time(1), 100 + 4 * 8);
    EXPECT_EQ(p.time(2), 100 + 2 * 8);
}

// While a part is on a long hop of a ring, other links are idle. Other chunks, if any, fill these gaps.
TEST(pipeline, fills_idle_links) {
    const pipeline p{.chunks = 3, .chunk_time = 10, .busiest = 4, .idle = 5, .lane_time = 10};
    EXPECT_EQ(p.time(3), 10 - 5 + 2 * 4);
    const pipeline short_of_chunks{.chunks = 2, .chunk_time = 10, .busiest = 4, .idle = 5, .lane_time = 10};
    EXPECT_EQ(short_of_chunks.time(2), 10);
}

}  // namespace
}  // namespace terrace::detail::test::pipeline_test
