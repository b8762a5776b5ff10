// Chunks of calls, on transports that limit their size and on those that divide them evenly among ranks.

#include <algorithm>

#include <gtest/gtest.h>

#include "base/partition.hpp"
#include "schedule/slice.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test::call_slicing_test {

namespace {

rule rule_of(std::string_view by, std::int64_t chunk) {
    rule r;
    r.chunk = chunk;
    r.stages = {run_by({{0}, 6, mode::scatter}, by)};
    return r;
}

collective_call allreduce_of(std::int64_t count) { return {.count = count}; }

}  // namespace

TEST(call_slicing, a_call_without_limits_goes_by_its_rule) {
    const slicing s = slice_call(allreduce_of(1000), rule_of("ring", 1024), 6, {});
    EXPECT_EQ(s.chunk, 256);
    EXPECT_EQ(s.chunks, 4);
    EXPECT_EQ(s.tail, 232);
    const slicing whole = slice_call(allreduce_of(1000), rule_of("ring", 0), 6, {.slot_bytes = 64});
    EXPECT_EQ(whole.chunks, 1);
    EXPECT_EQ(whole.tail, 1000);
}

TEST(call_slicing, chunks_of_shared_memory_fit_into_slots) {
    for (const std::int64_t chunk : {0, 256, 4096}) {
        const slicing s = slice_call(allreduce_of(10'000), rule_of("shared_memory", chunk), 6, {.slot_bytes = 1024});
        EXPECT_LE(s.chunk * 4, 1024);
        EXPECT_EQ(s.chunk * (s.chunks - 1) + s.tail, 10'000);
    }
}

TEST(call_slicing, blocks_of_one_count_are_cut_alike) {
    const collective_call blocks{.what = collective::allgather, .count = 600, .blocks = equal_blocks(6, 600)};
    const slicing s = slice_call(blocks, rule_of("ring", 6 * 1024), 6, {.divides_evenly = true});
    EXPECT_EQ(s.chunk * (s.chunks - 1) + s.tail, 600);
    EXPECT_LE(s.chunk * 6 * 4, 6 * 1024);
}

TEST(call_slicing, blocks_of_counts_of_their_own_are_cut_into_as_many_parts_each) {
    for (const std::vector<std::int64_t>& counts :
         {std::vector<std::int64_t>{600, 600, 600}, {100'000, 3, 0}, {7, 50'000, 49'999}, {1, 1, 1}, {0, 0, 0}})
        for (const std::int64_t bytes : {0, 8, 1024, 4096, 1 << 20}) {
            const collective_call call{
                .what = collective::allgather, .blocks = side_by_side(counts), .counts_given = true};
            const std::int64_t chunks = slice_call(call, rule_of("ring", bytes), 3, {}).chunks;
            const collective_call first = call.chunk_of(chunks, false), last = call.chunk_of(chunks, true);
            const std::int64_t most = std::max<std::int64_t>(bytes / 4, 3), longest = std::ranges::max(counts);
            const bool is_whole = bytes == 0 || call.elements() * 4 <= bytes;
            EXPECT_EQ(chunks == 1, is_whole || longest == 1);
            EXPECT_TRUE(is_whole || longest == 1 || first.elements() <= most);
            EXPECT_TRUE(is_whole || 6 * call.elements() > most * most / 4 || last.elements() <= most);
            for (std::size_t r = 0; r < counts.size(); ++r) {
                EXPECT_EQ(first.blocks[r].begin, call.blocks[r].begin);
                EXPECT_EQ(last.blocks[r].begin, first.blocks[r].begin + (chunks - 1) * first.blocks[r].count());
                EXPECT_EQ(last.blocks[r].end, call.blocks[r].end);
            }
        }
    const collective_call call{.what = collective::allgather, .blocks = equal_blocks(6, 600), .counts_given = true};
    EXPECT_GE(slice_call(call, rule_of("shared_memory", 0), 6, {.slot_bytes = 1024}).chunks, 15);
}

TEST(call_slicing, stages_that_divide_evenly_get_equal_parts) {
    const std::int64_t even = 16 * 6;  // a cache line of floats for each rank
    for (const std::int64_t count : {95, 96, 97, 960, 1000, 5000})
        for (const std::int64_t chunk : {0, 100, 2048, 1 << 20}) {
            const slicing s =
                slice_call(allreduce_of(count), rule_of("shared_memory", chunk), 6, {.divides_evenly = true});
            EXPECT_EQ(s.chunk * (s.chunks - 1) + s.tail, count);
            if (count < even) continue;
            EXPECT_EQ(s.chunk % even, 0) << count << ' ' << chunk;
            EXPECT_GT(s.tail, 0);
            EXPECT_LE(s.tail, s.chunk);
        }
    // Stages by messages need no even parts.
    EXPECT_EQ(slice_call(allreduce_of(1000), rule_of("ring", 0), 6, {.divides_evenly = true}).chunks, 1);
}

}  // namespace terrace::detail::test::call_slicing_test
