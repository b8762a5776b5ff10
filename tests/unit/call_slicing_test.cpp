// How calls are cut into chunks, for transports that limit chunks and for those that divide them evenly.

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

TEST(call_slicing, blocks_are_cut_alike_and_blocks_of_own_counts_not_at_all) {
    const collective_call blocks{.what = collective::allgather, .count = 600, .blocks = equal_blocks(6, 600)};
    const slicing s = slice_call(blocks, rule_of("ring", 6 * 1024), 6, {.divides_evenly = true});
    EXPECT_EQ(s.chunk * (s.chunks - 1) + s.tail, 600);
    EXPECT_LE(s.chunk * 6 * 4, 6 * 1024);
    const collective_call own{.what = collective::allgather, .blocks = equal_blocks(6, 600), .counts_given = true};
    EXPECT_EQ(slice_call(own, rule_of("ring", 8), 6, {}).chunks, 1);
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
    // Messages divide as they like.
    EXPECT_EQ(slice_call(allreduce_of(1000), rule_of("ring", 0), 6, {.divides_evenly = true}).chunks, 1);
}

}  // namespace terrace::detail::test::call_slicing_test
