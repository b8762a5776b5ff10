// Stages in shared memory, run by node_stages: all ranks of a node are in one thread, and progress in random order.

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "support/dice.hpp"
#include "transport/shm/node_stages.hpp"

namespace terrace::detail::test::node_stages_test {

namespace {

constexpr int ranks = 3, root = 1, slots = 2;
constexpr std::int64_t elements = 40;  // of each buffer, which contains the group's part
constexpr std::size_t buffer_bytes = elements * sizeof(std::int32_t);
constexpr std::int32_t untouched = -77;

const group whole_group({0, 1, 2}, {{3, 9}, {9, 9}, {9, 33}}, root);

// Returns shared memory of all ranks.
shared_region region_of(std::size_t bytes) {
    const auto lines = (bytes + 63) / 64;
    struct alignas(64) line {
        std::array<std::byte, 64> bytes;
    };
    const std::shared_ptr<line[]> memory(new line[ranks * lines]());
    shared_region made{bytes, {}, memory};
    for (std::size_t r = 0; r < ranks; ++r) made.parts.push_back(memory[r * lines].bytes.data());
    return made;
}

// Places of a rank's input and result.
enum class place { slot, slot_to_plain, slot_to_window, window, window_in_place };
constexpr std::array places{place::slot, place::slot_to_plain, place::slot_to_window, place::window,
                            place::window_in_place};

struct rank_memory {
    std::shared_ptr<std::byte> send, recv;  // windows
    std::vector<std::int32_t> own = std::vector<std::int32_t>(elements), plain = own;
    std::vector<std::int32_t> input;
    std::int32_t* given = nullptr;
    std::int32_t* result = nullptr;
};

struct stages_of_rank final : node_stages {
    using node_stages::node_stages;
    std::shared_ptr<std::byte> allocate_window(std::size_t) override { return nullptr; }
    bool wait() noexcept override { return true; }
};

class node {
public:
    explicit node(dice& d, bool sleeps = false) : dice_(d) {
        const shared_region arena = region_of(node_memory::arena_bytes(slots, 4096));
        const std::array windows{region_of(node_memory::window_bytes(buffer_bytes)),
                                 region_of(node_memory::window_bytes(buffer_bytes))};
        for (int r = 0; r < ranks; ++r) {
            stages.push_back(std::make_unique<stages_of_rank>(r, std::vector{0, 1, 2}, arena, slots, 4096, sleeps));
            rank_memory& m = memory[at(r)];
            m.send = stages.back()->add_window(windows[0]);
            m.recv = stages.back()->add_window(windows[1]);
        }
    }

    // Sets a rank's buffers and input. With `keeps_shard` its own shard is not in the memory that peers read.
    void put(int rank, place where, int slot, bool keeps_shard) {
        rank_memory& m = memory[at(rank)];
        const auto values = [](std::byte* p) { return reinterpret_cast<std::int32_t*>(p); };
        const bool in_slot = where == place::slot || where == place::slot_to_plain || where == place::slot_to_window;
        m.given = in_slot ? values(stages[at(rank)]->lane_memory(slot, buffer_bytes)) : values(m.send.get());
        m.result = where == place::slot_to_plain                              ? m.plain.data()
                   : where == place::slot_to_window || where == place::window ? values(m.recv.get())
                                                                              : m.given;
        m.input.clear();
        for (std::int64_t i = 0; i < elements; ++i) m.input.push_back(static_cast<std::int32_t>(dice_.below(1 << 20)));
        std::fill_n(m.result, elements, untouched);
        std::copy(m.input.begin(), m.input.end(), m.given);
        m.own = m.input;
        if (!keeps_shard) return;
        const range shard = whole_group.shards()[at(rank)];
        std::fill(m.given + shard.begin, m.given + shard.end, untouched);
    }

    stage_call call_of(int rank, action what, bool by_shards, int slot) {
        rank_memory& m = memory[at(rank)];
        stage_call c;
        c.what = what;
        c.group = &groups[at(rank)];
        c.src = reinterpret_cast<const std::byte*>(m.given);
        c.own = reinterpret_cast<const std::byte*>(m.own.data());
        c.dst = reinterpret_cast<std::byte*>(m.result);
        c.sharded = by_shards;
        c.element = sizeof(std::int32_t);
        c.reduce = find_reduce(element_type::int32, reduce_op::sum);
        c.lane_slot = slot;
        return c;
    }

    // Starts the ranks' calls, and runs all ranks in random order. Returns false if a call does not complete.
    bool run(const std::vector<stage_call>& calls) {
        std::array<bool, ranks> started{}, complete{};
        for (int turn = 0; turn < 10'000; ++turn) {
            const std::size_t r = dice_.below(ranks);
            if (!started[r]) {
                stages[r]->start(0, calls[r]);
                started[r] = true;
                continue;
            }
            std::vector<int> done;
            stages[r]->poll(done);
            complete[r] |= !done.empty();
            if (std::ranges::all_of(complete, [](bool c) { return c; })) return true;
        }
        return false;
    }

    std::vector<std::unique_ptr<stages_of_rank>> stages;
    std::array<rank_memory, ranks> memory;
    std::vector<group> groups{whole_group.seen_from(0), whole_group.seen_from(1), whole_group.seen_from(2)};

private:
    dice& dice_;
};

// Result of a rank by the stage's contract: elements, and the ranks that they come from.
struct due {
    range part;
    std::optional<int> from;  // one rank; empty: the sum over all
};

std::vector<due> due_of(action what, int rank) {
    const std::vector<range>& shards = whole_group.shards();
    const range whole = whole_group.whole(), own = shards[at(rank)];
    switch (what) {
        case action::stage_reduce_scatter: return {{own, {}}};
        case action::stage_allgather: return {{shards[0], 0}, {shards[1], 1}, {shards[2], 2}};
        case action::stage_reduce: return rank == root ? std::vector<due>{{whole, {}}} : std::vector<due>{};
        case action::stage_broadcast: return {{whole, root}};
        default: return {{whole, {}}};
    }
}

void expect_due(const node& n, action what, int rank) {
    const auto value = [&](std::int64_t i, int r) { return n.memory[at(r)].input[at(i)]; };
    const rank_memory& mine = n.memory[at(rank)];
    for (const auto& [part, from] : due_of(what, rank))
        for (std::int64_t i = part.begin; i < part.end; ++i)
            ASSERT_EQ(mine.result[i], from ? value(i, *from) : value(i, 0) + value(i, 1) + value(i, 2))
                << to_string(what) << ", rank " << rank << ", element " << i;
    if (mine.result == mine.given) return;
    const range whole = whole_group.whole();
    for (std::int64_t i = 0; i < elements; ++i) {
        if (i >= whole.begin && i < whole.end) continue;
        ASSERT_EQ(mine.result[i], untouched) << to_string(what) << ' ' << i;
    }
}

constexpr std::array all_stages{action::stage_reduce_scatter, action::stage_allgather, action::stage_allreduce,
                                action::stage_reduce, action::stage_broadcast};

}  // namespace

// One stage after another in the same slots. Each rank has its buffers in any place.
TEST(node_stages, give_every_rank_what_the_stage_promises) {
    dice d(1);
    node n(d);
    for (std::uint64_t turn = 0; turn < 600; ++turn) {
        const action what = all_stages[d.below(all_stages.size())];
        const bool by_shards = what == action::stage_allreduce && d.coin();
        const bool keeps_shard = by_shards || what == action::stage_reduce_scatter;
        const int slot = static_cast<int>(d.below(slots));
        std::vector<stage_call> calls;
        for (int r = 0; r < ranks; ++r) {
            n.put(r, places[d.below(places.size())], slot, keeps_shard);
            calls.push_back(n.call_of(r, what, by_shards, slot));
            calls.back().turn = turn;
            calls.back().streams = d.coin();
        }
        ASSERT_TRUE(n.run(calls)) << to_string(what) << ", turn " << turn;
        for (int r = 0; r < ranks; ++r) expect_due(n, what, r);
        if (HasFatalFailure()) return;
    }
}

// If a rank has made another call, the others wait for it: no rank reads memory of another call.
TEST(node_stages, do_not_run_with_those_that_have_made_other_calls) {
    dice d(7);
    for (const action what : all_stages) {
        node n(d);
        std::vector<stage_call> calls;
        for (int r = 0; r < ranks; ++r) {
            n.put(r, place::slot_to_plain, 0, false);
            calls.push_back(n.call_of(r, what, false, 0));
            calls.back().history = r == 2 ? 8 : 7;
        }
        EXPECT_FALSE(n.run(calls)) << to_string(what);
        EXPECT_EQ(n.memory[2].plain, std::vector<std::int32_t>(elements, untouched)) << to_string(what);
        if (what == action::stage_reduce) continue;  // rank 2 may wait for no rank
        EXPECT_FALSE(n.stages[2]->missing(0).empty()) << to_string(what);
    }
}

// Stages of one turn are distinguished by their channels, so ranks do not wait for all others between stages.
TEST(node_stages, a_rank_may_be_stages_ahead) {
    dice d(2);
    node n(d);
    for (int r = 0; r < ranks; ++r) n.put(r, place::slot, 0, false);
    std::array<std::vector<stage_call>, ranks> calls;
    for (std::size_t r = 0; r < ranks; ++r)
        for (int channel = 0; channel < 3; ++channel) {
            const action what = channel == 0 ? action::stage_reduce : action::stage_broadcast;
            calls[r].push_back(n.call_of(static_cast<int>(r), what, false, 0));
            calls[r].back().channel = channel;
        }
    std::array<std::size_t, ranks> next{};
    std::array<bool, ranks> runs{};
    for (int turn = 0; turn < 10'000 && std::ranges::any_of(next, [](std::size_t c) { return c < 3; }); ++turn) {
        const std::size_t r = d.below(ranks);
        if (next[r] == 3) continue;
        if (!runs[r]) n.stages[r]->start(0, calls[r][next[r]]);
        runs[r] = true;
        std::vector<int> done;
        n.stages[r]->poll(done);
        if (done.empty()) continue;
        runs[r] = false;
        ++next[r];
    }
    for (int r = 0; r < ranks; ++r) {
        ASSERT_EQ(next[at(r)], 3u);
        expect_due(n, action::stage_allreduce, r);
    }
}

TEST(node_stages, name_the_ranks_that_they_wait_for) {
    dice d(3);
    node n(d);
    std::vector<stage_call> calls;
    for (int r = 0; r < ranks; ++r) {
        n.put(r, place::slot, 0, false);
        calls.push_back(n.call_of(r, action::stage_broadcast, false, 0));
    }
    std::vector<int> done;
    n.stages[0]->start(5, calls[0]);
    n.stages[0]->poll(done);
    EXPECT_TRUE(done.empty());
    EXPECT_FALSE(n.stages[0]->idle());
    EXPECT_EQ(n.stages[0]->missing(5), std::vector{root});
    EXPECT_EQ(n.stages[0]->missing(4), std::vector<int>{});
    n.stages[1]->start(0, calls[1]);
    n.stages[0]->poll(done);
    EXPECT_EQ(done, std::vector{5});
    EXPECT_TRUE(n.stages[0]->idle());
    n.stages[1]->poll(done);
    EXPECT_EQ(n.stages[1]->missing(0), std::vector{2});
}

// The root completes a last stage before its peers have read its slot. Until then nothing may write the slot.
TEST(node_stages, a_slot_is_not_ready_before_peers_have_read_it) {
    dice d(4);
    node n(d);
    std::vector<stage_call> calls;
    for (int r = 0; r < ranks; ++r) {
        n.put(r, place::slot, 1, false);
        calls.push_back(n.call_of(r, action::stage_broadcast, false, 1));
        calls.back().last = true;
        calls.back().number = 9;
    }
    std::vector<int> done;
    n.stages[root]->start(0, calls[root]);
    n.stages[root]->poll(done);
    EXPECT_EQ(done.size(), 1u);
    EXPECT_FALSE(n.stages[root]->lane_ready(1));
    EXPECT_EQ(n.stages[root]->lane_readers(1), (std::vector{0, 2}));
    EXPECT_TRUE(n.stages[root]->lane_ready(0));
    for (const std::size_t r : {0u, 2u}) {
        n.stages[r]->start(0, calls[r]);
        n.stages[r]->poll(done);
        EXPECT_EQ(n.stages[root]->lane_ready(1), r == 2);
    }
    EXPECT_EQ(done.size(), 3u);
}

// With windows a stage completes only when no peer reads the caller's memory any more, even the last stage.
TEST(node_stages, windows_are_the_callers_again_when_the_stage_is_complete) {
    dice d(5);
    node n(d);
    std::vector<stage_call> calls;
    for (int r = 0; r < ranks; ++r) {
        n.put(r, place::window_in_place, 0, false);
        calls.push_back(n.call_of(r, action::stage_broadcast, false, 0));
        calls.back().last = true;
    }
    std::vector<int> done;
    n.stages[root]->start(0, calls[root]);
    n.stages[root]->poll(done);
    EXPECT_TRUE(done.empty());
    EXPECT_EQ(n.stages[root]->missing(0), (std::vector{0, 2}));
}

TEST(node_stages, a_rank_with_work_does_not_sleep) {
    dice d(6);
    node n(d, true);
    std::vector<stage_call> calls;
    for (int r = 0; r < ranks; ++r) {
        n.put(r, place::slot, 0, false);
        calls.push_back(n.call_of(r, action::stage_allgather, false, 0));
    }
    n.stages[0]->start(0, calls[0]);
    EXPECT_TRUE(n.stages[0]->sleep());  // for half a millisecond
    n.stages[1]->start(0, calls[1]);
    n.stages[2]->start(0, calls[2]);
    EXPECT_FALSE(n.stages[0]->sleep());
}

// Each slot takes as much memory as the longest vector so far needs. Short vectors are in the mailbox.
TEST(node_memory, slots_take_memory_as_calls_need_it) {
    using pieces = std::vector<std::pair<std::size_t, std::size_t>>;
    constexpr std::size_t slot_bytes = 16384;
    pieces taken;
    int trouble = 0;
    shared_region arena = region_of(node_memory::arena_bytes(slots, slot_bytes));
    const std::byte* const part = arena.parts[root];
    arena.take = [&](std::size_t begin, std::size_t bytes) {
        if (trouble == 0) taken.emplace_back(begin, bytes);
        return trouble;
    };
    node_memory memory(root, std::move(arena), slots, slot_bytes);
    const auto begin_of = [&](int slot) { return static_cast<std::size_t>(memory.slot_memory(slot, 100) - part); };
    EXPECT_EQ(begin_of(0), node_memory::bytes_at_once(slots));
    memory.take_slots(32);
    EXPECT_TRUE(taken.empty());
    for (const std::size_t bytes : {100, 4096, 33}) memory.take_slots(bytes);
    EXPECT_EQ(taken, (pieces{{begin_of(0), 4096}, {begin_of(1), 4096}}));
    memory.take_slots(12000);
    EXPECT_EQ(
        taken,
        (pieces{{begin_of(0), 4096}, {begin_of(1), 4096}, {begin_of(0) + 4096, 8192}, {begin_of(1) + 4096, 8192}}));
    for (const int code : {ENOSPC, EIO}) {
        trouble = code;
        memory.take_slots(12000);
        try {
            memory.take_slots(slot_bytes);
            ADD_FAILURE() << "taken";
        } catch (const transport_error& e) {
            EXPECT_EQ(e.code(), code);
            EXPECT_EQ(std::string(e.what()).find("enlarge it") != std::string::npos, code == ENOSPC) << e.what();
        }
    }
}

// A caller's buffer that begins at the end of a region is not memory of the region.
TEST(node_memory, ends_before_what_is_mapped_behind_it) {
    constexpr std::size_t page = 4096;
    const std::size_t arena_bytes = node_memory::arena_bytes(slots, page);
    ASSERT_EQ(arena_bytes % page, 0u);
    shared_region arena = region_of(arena_bytes);
    // Two adjacent mappings: the rank's part, and the caller's next one.
    void* const both = ::mmap(nullptr, arena_bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(both, MAP_FAILED);
    std::byte* const part = static_cast<std::byte*>(both);
    std::byte* const behind = part + arena_bytes;
    ASSERT_EQ(::mmap(behind, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), behind);
    arena.parts[root] = part;
    const node_memory memory(root, std::move(arena), slots, page);
    EXPECT_EQ(memory.locate(part), 0u);
    EXPECT_EQ(memory.locate(behind - 1), arena_bytes - 1);
    EXPECT_EQ(memory.locate(behind), node_memory::nowhere);
    ::munmap(both, arena_bytes + page);
}

}  // namespace terrace::detail::test::node_stages_test
