// The kernels on a GPU: they give the bits of the host's kernels, write nothing else, and accept counts above 2^32.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "base/element_types.hpp"
#include "gpu/memory.hpp"
#include "kernels/gpu_reduce.hpp"
#include "kernels/gpu_shapes.hpp"
#include "support/calls.hpp"
#include "support/effort.hpp"
#include "support/reductions.hpp"

namespace terrace::detail::test {

namespace {

int reduce(const reduction& r, std::byte* dst, const std::vector<const void*>& sources) {
    return reduce_on_gpu(dst, sources.data(), r.what().k, r.what().count, r.what().type, r.what().op, r.what().divisor,
                         nullptr);
}

// Runs a reduction in one arena, which shows bytes written beside the result. Returns the first error.
std::string in_arena(const reduction& r) {
    const device_memory arena(r.bytes());
    CHECK(cudaMemcpy(arena.data(), r.arena(), r.bytes(), cudaMemcpyHostToDevice));
    std::vector<const void*> sources;
    for (const std::size_t at : r.sources()) sources.push_back(arena.data() + at);
    CHECK(reduce(r, arena.data() + r.dst(), sources));
    std::vector<std::byte> after(r.bytes());
    CHECK(cudaMemcpy(after.data(), arena.data(), r.bytes(), cudaMemcpyDeviceToHost));
    return r.wrong(after.data());
}

// Runs a reduction in separate buffers of exact length, so a memory checker detects accesses outside of them.
std::string apart(const reduction& r) {
    const std::size_t length = static_cast<std::size_t>(r.what().count) * size_of(r.what().type);
    std::vector<device_memory> memory;
    std::vector<const void*> sources;
    const auto place = [&](std::size_t at) {
        const std::size_t over = at % 16;
        std::byte* const data = memory.emplace_back(over + length).data() + over;
        CHECK(cudaMemcpy(data, r.arena() + at, length, cudaMemcpyHostToDevice));
        return data;
    };
    std::byte* dst = nullptr;
    for (const std::size_t at : r.sources()) {
        sources.push_back(place(at));
        if (at == r.dst()) dst = const_cast<std::byte*>(static_cast<const std::byte*>(sources.back()));
    }
    if (dst == nullptr) dst = place(r.dst());
    CHECK(reduce(r, dst, sources));
    std::vector<std::byte> after(r.arena(), r.arena() + r.bytes());
    CHECK(cudaMemcpy(after.data() + r.dst(), dst, length, cudaMemcpyDeviceToHost));
    return r.wrong(after.data());
}

constexpr std::int64_t tile = gpu::threads * gpu::two::unrolled * 16;

}  // namespace

TEST(kernels_on_gpu, have_the_bits_of_the_host_and_write_nothing_else) {
    dice random(seed());
    for (const reduction::form& f : reduction_forms(tile, random))
        ASSERT_EQ(in_arena(reduction(f, random)), "") << "seed " << seed();
}

// Runs every seventh form, or every n-th by TERRACE_TEST_EVERY, since a memory checker makes the test slow.
TEST(kernels_on_gpu, stay_inside_their_buffers) {
    dice random(seed());
    const char* given = std::getenv("TERRACE_TEST_EVERY");
    const std::size_t step = given != nullptr ? std::strtoul(given, nullptr, 10) : 7;
    const std::vector<reduction::form> all = reduction_forms(tile, random);
    for (std::size_t i = random.below(step); i < all.size(); i += step)
        ASSERT_EQ(apart(reduction(all[i], random)), "") << "seed " << seed();
}

TEST(kernels_on_gpu, random_numbers_are_as_exact_as_they_can_be) {
    dice random(seed());
    for (const element_type type : all_element_types)
        for (const reduce_op op : ops_of(type))
            for (const int k : {2, 8}) {
                const int divisor = op == reduce_op::avg ? k : 1;
                const reduction::form f{type, op, k, 200'003, divisor, false, k == 2, false};
                ASSERT_EQ(in_arena(reduction(f, random)), "") << "seed " << seed();
            }
}

TEST(kernels_on_gpu, many_sources_and_too_many) {
    dice random(seed());
    for (const element_type type : {element_type::int8, element_type::bfloat16, element_type::float64})
        ASSERT_EQ(in_arena(reduction({type, reduce_op::sum, most_gpu_sources, 5001, 1, true, true, false}, random)),
                  "");
    std::vector<const void*> sources(most_gpu_sources + 1);
    EXPECT_EQ(
        reduce_on_gpu(nullptr, sources.data(), most_gpu_sources + 1, 1, element_type::int8, reduce_op::sum, 1, nullptr),
        cudaErrorInvalidValue);
}

// More than 2^32 elements, all of which are checked.
TEST(kernels_on_gpu, counts_need_64_bits) {
    constexpr std::int64_t count = (std::int64_t{1} << 32) + 77;
    std::size_t available = 0, total = 0;
    CHECK(cudaMemGetInfo(&available, &total));
    if (available < 3 * static_cast<std::size_t>(count)) GTEST_SKIP() << "takes 9 GB of the device's memory";
    const device_memory a(count), b(count);
    CHECK(cudaMemset(a.data(), 3, count));
    CHECK(cudaMemset(b.data(), 4, count));
    const void* sources[] = {a.data(), b.data()};
    CHECK(reduce_on_gpu(a.data(), sources, 2, count, element_type::uint8, reduce_op::sum, 1, nullptr));
    constexpr std::int64_t part = std::int64_t{64} << 20;
    std::vector<std::uint8_t> host(part);
    for (std::int64_t at = 0; at < count; at += part) {
        const std::int64_t n = std::min(part, count - at);
        CHECK(cudaMemcpy(host.data(), a.data() + at, static_cast<std::size_t>(n), cudaMemcpyDeviceToHost));
        ASSERT_EQ(std::count(host.begin(), host.begin() + n, 7), n) << "of the elements from " << at;
    }
}

}  // namespace terrace::detail::test

// Exit status 77: skipped, since there is no GPU.
int main(int argc, char** argv) {
    if (const std::string why = terrace::detail::test::no_gpu(); !why.empty()) {
        std::printf("skipped: %s\n", why.c_str());
        return 77;
    }
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
