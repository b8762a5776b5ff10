// The code of the kernels for GPUs, run on the host: the threads of a launch run one after another, in an order that no
// GPU would choose. tests/gpu tests the kernels on a GPU.

#include <vector>

#include <gtest/gtest.h>

#include "kernels/gpu_thread.hpp"
#include "support/effort.hpp"
#include "support/reductions.hpp"

namespace terrace::detail::test::gpu_kernels_test {

namespace {

struct on_this_machine {
    const reduction& r;
    std::byte* arena;
    int threads;
    std::int64_t most_blocks;

    template <class T, class Op, class Shape>
    std::int64_t run(int parts) const {
        std::vector<const void*> sources;
        for (const std::size_t at : r.sources()) sources.push_back(arena + at);
        const gpu::task t = gpu::part(arena + r.dst(), sources.data(), r.what().k, r.what().count * parts, sizeof(T),
                                      r.what().divisor, threads * Shape::unrolled);
        for (std::int64_t block = most_blocks; block-- > 0;)
            for (int thread = threads; thread-- > 0;)
                gpu::reduce<T, Op, Shape::batch, Shape::unrolled>(t, sources.data(),
                                                                  {block, most_blocks, thread, threads});
        return t.tiled;
    }
};

// Runs a reduction. Returns its first error, and the number of vectors in tiles.
std::pair<std::string, std::int64_t> outcome(const reduction& r, int threads, std::int64_t blocks) {
    std::vector<std::byte> room(r.bytes() + reduction::alignment);
    const std::size_t over = reinterpret_cast<std::uintptr_t>(room.data()) & (reduction::alignment - 1);
    std::byte* arena = room.data() + (over == 0 ? 0 : reduction::alignment - over);
    std::copy_n(r.arena(), r.bytes(), arena);
    const std::int64_t tiled =
        gpu::with_kernel(r.what().type, r.what().op, r.what().k, on_this_machine{r, arena, threads, blocks});
    return {r.wrong(arena), tiled};
}

constexpr int few = 4;  // threads of a block, so that tiles are small

}  // namespace

TEST(gpu_kernels, have_the_bits_of_the_host_and_write_nothing_else) {
    dice random(seed());
    int in_tiles = 0, without = 0;
    for (int again = 0; again < 3; ++again)
        for (const reduction::form& f : reduction_forms(few * gpu::two::unrolled * 16, random)) {
            const reduction r(f, random);
            const auto [wrong, tiled] = outcome(r, few, 1 + static_cast<std::int64_t>(random.below(4)));
            ASSERT_EQ(wrong, "") << "seed " << seed();
            ++(tiled > 0 ? in_tiles : without);
        }
    EXPECT_GT(in_tiles, 500);
    EXPECT_GT(without, 500);
}

TEST(gpu_kernels, many_sources) {
    dice random(seed());
    for (const int k : {17, most_gpu_sources})
        for (const element_type type : {element_type::int8, element_type::bfloat16, element_type::float64})
            for (const bool aligned : {false, true})
                for (const bool bits : {false, true}) {
                    const reduction r({type, reduce_op::sum, k, 301, 1, true, aligned, bits}, random);
                    ASSERT_EQ(outcome(r, few, 2).first, "") << "seed " << seed();
                }
}

// The launcher on the device uses as many blocks as the work needs, of 256 threads each.
TEST(gpu_kernels, blocks_fit_the_work) {
    alignas(16) std::byte memory[64];
    const void* sources[] = {memory, memory};
    const auto blocks = [&](std::int64_t count, int shift) {
        sources[1] = memory + shift;
        return gpu::blocks(gpu::part(memory, sources, 2, count, 4, 1, gpu::threads * gpu::two::unrolled), 4);
    };
    EXPECT_EQ(blocks(1, 0), 1);
    EXPECT_EQ(blocks(4 * gpu::threads, 0), 1);
    EXPECT_EQ(blocks(4 * gpu::threads + 4, 0), 2);
    EXPECT_EQ(blocks(4 * gpu::threads, 4), 1);
    EXPECT_EQ(blocks(std::int64_t{1} << 32, 0), std::int64_t{1} << 22);
}

// If a source is not aligned as the result, loads are wider than the data. All of them are inside the source.
TEST(gpu_kernels, read_inside_their_sources) {
    dice random(seed());
    for (int tries = 0; tries < 2000; ++tries) {
        const auto dst = static_cast<std::uintptr_t>(4096 + 4 * random.below(8)), source = 8192 + 4 * random.below(8);
        // NOLINTBEGIN(performance-no-int-to-ptr): addresses that nothing reads
        const void* sources[] = {reinterpret_cast<const void*>(source)};
        const auto count = static_cast<std::int64_t>(random.below(40));
        const gpu::task t = gpu::part(reinterpret_cast<void*>(dst), sources, 1, count, 4, 1, 8);
        // NOLINTEND(performance-no-int-to-ptr)
        ASSERT_LE(t.vectors == 0 ? 0 : t.head + 4 * t.vectors, count);
        if (t.vectors == 0) continue;
        const std::uintptr_t first = source + 4 * static_cast<std::uintptr_t>(t.head), shift = first % 16;
        const std::uintptr_t end = first + 16 * static_cast<std::uintptr_t>(t.vectors);
        ASSERT_EQ((dst + 4 * static_cast<std::uintptr_t>(t.head)) % 16, 0u);
        ASSERT_GE(first - shift, source);
        ASSERT_LE(end + (shift == 0 ? 0 : 16 - shift), source + 4 * static_cast<std::uintptr_t>(count));
    }
}

}  // namespace terrace::detail::test::gpu_kernels_test
