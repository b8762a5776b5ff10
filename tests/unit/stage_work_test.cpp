// The work of stages in shared memory: the data that each member reads and writes, and the members that it waits for.

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "schedule/stage_work.hpp"

namespace terrace::detail::stage_work_test {
namespace {

constexpr std::array<range, 3> shards{{{10, 14}, {14, 16}, {16, 22}}};
constexpr range whole{10, 22};
constexpr int root = 1, size = 3;

std::vector<stage_work> all_work() {
    std::vector<stage_work> all;
    for (const action a :
         {action::stage_reduce_scatter, action::stage_allgather, action::stage_reduce, action::stage_broadcast,
          action::stage_allreduce, action::stage_scatter, action::stage_gather})
        for (const sharing how : {sharing::replicated, sharing::push, sharing::pull}) all.emplace_back(a, root, how);
    return all;
}

TEST(stage_work, allreduce_is_shared_by_what_members_say_of_their_memory) {
    EXPECT_EQ(sharing_of(false, false, true), sharing::replicated);
    EXPECT_EQ(sharing_of(false, true, true), sharing::push);
    EXPECT_EQ(sharing_of(false, true, false), sharing::pull);
    EXPECT_EQ(sharing_of(true, false, true), sharing::push);
    EXPECT_EQ(sharing_of(true, false, false), sharing::pull);
}

TEST(stage_work, reduce_scatter_reads_its_own_shard_of_everybody) {
    const stage_work work(action::stage_reduce_scatter);
    ASSERT_EQ(work.rounds(), 1);
    for (int owner = 0; owner < size; ++owner) {
        EXPECT_EQ(work.read(0, 2, owner, shards), shards[2]);
        EXPECT_EQ(work.written(0, 2, owner, shards).count(), owner == 2 ? 6 : 0);
    }
    EXPECT_EQ(work.touched(0, 2, false, shards), 4 * 6);
    EXPECT_EQ(work.awaited(0, 2), peers::all);
    EXPECT_EQ(work.awaited(1, 2), peers::all);
}

TEST(stage_work, allgather_reads_the_shard_of_each) {
    const stage_work work(action::stage_allgather);
    ASSERT_EQ(work.rounds(), 1);
    for (int owner = 0; owner < size; ++owner)
        EXPECT_EQ(work.read(0, 2, owner, shards), shards[static_cast<std::size_t>(owner)]);
    EXPECT_EQ(work.written(0, 2, 2, shards), whole);
    EXPECT_EQ(work.touched(0, 2, false, shards), 2 * 12);
    EXPECT_EQ(work.touched(0, 2, true, shards), 2 * 6);
}

TEST(stage_work, only_the_root_reduces_and_its_peers_wait_for_it_at_the_end) {
    const stage_work work(action::stage_reduce, root);
    for (int owner = 0; owner < size; ++owner) {
        EXPECT_EQ(work.read(0, root, owner, shards), whole);
        EXPECT_TRUE(work.read(0, 2, owner, shards).empty());
    }
    EXPECT_EQ(work.awaited(0, root), peers::all);
    EXPECT_EQ(work.awaited(1, root), peers::none);
    EXPECT_EQ(work.awaited(0, 2), peers::none);
    EXPECT_EQ(work.awaited(1, 2), peers::root);
    EXPECT_FALSE(work.awaits(1, 2, 0));
    EXPECT_TRUE(work.awaits(1, 2, root));
    EXPECT_EQ(work.touched(0, root, false, shards), 4 * 12);
    EXPECT_EQ(work.touched(0, 2, false, shards), 0);
}

TEST(stage_work, a_broadcast_reads_the_root_which_waits_for_all_at_the_end) {
    const stage_work work(action::stage_broadcast, root);
    EXPECT_EQ(work.read(0, 2, root, shards), whole);
    EXPECT_TRUE(work.read(0, 2, 0, shards).empty());
    EXPECT_EQ(work.awaited(0, 2), peers::root);
    EXPECT_EQ(work.awaited(0, root), peers::none);
    EXPECT_EQ(work.awaited(1, 2), peers::none);
    EXPECT_EQ(work.awaited(1, root), peers::all);
    EXPECT_EQ(work.touched(0, root, true, shards), 0);
    EXPECT_EQ(work.touched(0, 2, false, shards), 2 * 12);
}

TEST(stage_work, a_scatter_reads_its_own_shard_of_the_root) {
    const stage_work work(action::stage_scatter, root);
    EXPECT_EQ(work.read(0, 2, root, shards), shards[2]);
    EXPECT_TRUE(work.read(0, 2, 0, shards).empty());
    EXPECT_EQ(work.awaited(0, 2), peers::root);
    EXPECT_EQ(work.awaited(1, root), peers::all);
    EXPECT_EQ(work.touched(0, 2, false, shards), 2 * 6);
    EXPECT_EQ(work.touched(0, root, true, shards), 0);
}

TEST(stage_work, only_the_root_gathers_and_its_peers_wait_for_it_at_the_end) {
    const stage_work work(action::stage_gather, root);
    for (int owner = 0; owner < size; ++owner) {
        EXPECT_EQ(work.read(0, root, owner, shards), shards[static_cast<std::size_t>(owner)]);
        EXPECT_TRUE(work.read(0, 2, owner, shards).empty());
    }
    EXPECT_EQ(work.awaited(0, root), peers::all);
    EXPECT_EQ(work.awaited(0, 2), peers::none);
    EXPECT_EQ(work.awaited(1, 2), peers::root);
    EXPECT_EQ(work.touched(0, root, false, shards), 2 * 12);
    EXPECT_EQ(work.touched(0, 2, false, shards), 0);
}

TEST(stage_work, allreduce_by_shards_writes_to_all_or_lets_them_read) {
    const stage_work push(action::stage_allreduce, 0, sharing::push), pull(action::stage_allreduce, 0, sharing::pull);
    ASSERT_EQ(push.rounds(), 1);
    for (int owner = 0; owner < size; ++owner) EXPECT_EQ(push.written(0, 0, owner, shards), shards[0]);
    EXPECT_EQ(push.touched(0, 0, false, shards), 6 * 4);
    ASSERT_EQ(pull.rounds(), 2);
    EXPECT_EQ(pull.round(0).to, stage_memory::exposed);
    EXPECT_EQ(pull.written(0, 0, 0, shards), shards[0]);
    EXPECT_TRUE(pull.written(0, 0, 1, shards).empty());
    EXPECT_EQ(pull.read(1, 0, 2, shards), shards[2]);
    EXPECT_EQ(pull.touched(1, 0, false, shards), 2 * 12);
    for (int r = 0; r <= 2; ++r) EXPECT_EQ(pull.awaited(r, 0), peers::all);
}

// A member uses a peer's memory only after it has waited for the peer, and the peer waits for it before it leaves.
TEST(stage_work, memory_is_used_between_arrival_and_leaving) {
    for (const stage_work& work : all_work())
        for (int r = 0; r < work.rounds(); ++r)
            for (int member = 0; member < size; ++member)
                for (int owner = 0; owner < size; ++owner) {
                    if (member == owner) continue;
                    if (work.read(r, member, owner, shards).empty() && work.written(r, member, owner, shards).empty())
                        continue;
                    EXPECT_TRUE(work.awaits(0, member, owner));
                    EXPECT_TRUE(work.awaits(work.rounds(), owner, member));
                }
}

}  // namespace
}  // namespace terrace::detail::stage_work_test
