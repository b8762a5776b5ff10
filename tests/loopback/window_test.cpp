// Windows: memory of a communicator that peers on the node can access. The conformance suite checks the results of
// calls in windows.

#include <algorithm>
#include <atomic>
#include <optional>

#include <gtest/gtest.h>

#include <terrace/loopback.hpp>

#include "schedule/compose.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test::window_test {

namespace {

plan node_of(int ranks) {
    return plan_of(machine_of(tree::uniform(std::vector{ranks})),
                   {{{0}, ranks, mode::scatter, "", provider::shared_memory}}, 2, 4096);
}

constexpr std::size_t count = 5000;

bool sums_up(const communicator& comm, std::span<const std::int32_t> data) {
    return std::all_of(data.begin(), data.end(), [&](std::int32_t x) { return x == comm.size(); });
}

}  // namespace

TEST(window, is_zeroed_and_on_a_cache_line) {
    loopback::run(node_of(3), [](communicator& comm) {
        const window<double> made = comm.allocate<double>(count);
        EXPECT_EQ(made.size(), count);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.data()) % 64, 0u);
        EXPECT_TRUE(std::all_of(made.begin(), made.end(), [](double x) { return x == 0; }));
        EXPECT_EQ(comm.allocate<double>(0).size(), 0u);
    });
}

// A rank may free its part at any time. Peers continue to use theirs, and new windows replace old ones.
TEST(window, one_rank_may_free_its_part_before_others) {
    loopback::run(node_of(4), [](communicator& comm) {
        std::optional<window<std::int32_t>> first = comm.allocate<std::int32_t>(count);
        for (int turn = 0; turn < 10; ++turn) {
            window<std::int32_t> second = comm.allocate<std::int32_t>(count);
            if (comm.rank() == turn % 4) first.reset();
            std::vector<std::int32_t> plain(count, 1);
            const std::span<std::int32_t> data = first ? first->span() : std::span(plain);
            std::fill(data.begin(), data.end(), 1);
            std::fill(second.begin(), second.end(), 1);
            comm.allreduce(data);
            comm.allreduce(second.span());
            EXPECT_TRUE(sums_up(comm, data));
            EXPECT_TRUE(sums_up(comm, second.span()));
            first = std::move(second);
        }
    });
}

TEST(window, outlives_its_communicator) {
    std::vector<window<std::int32_t>> kept(2);
    loopback::run(node_of(2), [&](communicator& comm) {
        window<std::int32_t>& mine = kept[static_cast<std::size_t>(comm.rank())];
        mine = comm.allocate<std::int32_t>(count);
        std::fill(mine.begin(), mine.end(), 1);
        comm.allreduce(mine.span());
    });
    for (const window<std::int32_t>& each : kept)
        EXPECT_TRUE(std::all_of(each.begin(), each.end(), [](std::int32_t x) { return x == 2; }));
}

TEST(window, ranks_that_ask_for_different_sizes_are_told) {
    std::atomic<int> told{0};
    loopback::run(node_of(2), [&](communicator& comm) {
        try {
            comm.allocate<float>(comm.rank() == 0 ? count : count + 1);
        } catch (const usage_error& e) {
            told += std::string_view(e.what()).find("5001 elements of 4 bytes") != std::string_view::npos;
        }
    });
    EXPECT_EQ(told, 2);
}

// Calls in flight are completed first: peers may need this rank for that.
TEST(window, may_be_made_while_calls_are_in_flight) {
    loopback::run(node_of(3), [](communicator& comm) {
        std::vector<std::int32_t> data(count, 1);
        request r = comm.allreduce_async(std::span(data));
        const window<std::int32_t> made = comm.allocate<std::int32_t>(count);
        r.wait();
        EXPECT_TRUE(sums_up(comm, data));
    });
}

TEST(window, is_plain_memory_where_nothing_is_shared) {
    options o;
    o.shared_memory = false;
    o.log = [](log_level level, std::string_view line) { EXPECT_NE(level, log_level::warn) << line; };
    loopback::run(
        node_of(2),
        [](communicator& comm) {
            window<std::int32_t> made = comm.allocate<std::int32_t>(count);
            std::fill(made.begin(), made.end(), 1);
            comm.allreduce(made.span());
            EXPECT_TRUE(sums_up(comm, made.span()));
        },
        o);
}

// The purpose of windows: if the vector's home is the caller's buffer, nothing is copied inside the node.
TEST(window, calls_in_windows_copy_nothing) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{4, 2}));
    const std::vector<stage> stages{{{0}, 4, mode::scatter, "", provider::shared_memory},
                                    {{1}, 2, mode::scatter, "ring"}};
    capabilities can{.stages = ~0u, .domain = {0, 0, 0, 0, 1, 1, 1, 1}, .slot_bytes = 1 << 20, .slots = 2};
    const auto copies = [&](buffer home) {
        const composition c = compose(machine, stages, 4096, 16);
        const schedule s = lower(generate(c, collective::allreduce, 1, can, home), can);
        return std::count_if(s.instrs.begin(), s.instrs.end(), [](const instr& i) { return i.what == action::copy; });
    };
    EXPECT_EQ(copies(buffer::recv), 0);
    EXPECT_GT(copies(buffer::scratch), 0);
}

}  // namespace terrace::detail::test::window_test
