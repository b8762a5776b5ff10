// Finds the rank that a stuck job waits for in the end, with questions from rank to rank.

#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "control/wait_report/wait_chain.hpp"
#include "executor/engine.hpp"
#include "transport/loopback/loopback_transport.hpp"

namespace terrace::detail::test::wait_chain_test {

namespace {

constexpr std::chrono::duration<double> timeout(0.64);

// Ranks that take turns in one thread. Each waits for one rank, or makes no call and reads no messages (-1).
struct stuck_job {
    explicit stuck_job(std::vector<int> waits_for) : awaited(std::move(waits_for)), world(std::vector{size()}) {
        for (int r = 0; r < size(); ++r) {
            nets.push_back(std::make_unique<endpoint>(world.join(r), engine::request_slots(1)));
            routers.push_back(std::make_unique<control_router>(*nets.back()));
            chains.push_back(std::make_unique<wait_chain>(*routers.back(), timeout));
        }
    }
    int size() const { return static_cast<int>(awaited.size()); }
    wait_chain& chain(int rank) { return *chains[static_cast<std::size_t>(rank)]; }

    void look(int rank, std::chrono::duration<double> waited) {
        const auto r = static_cast<std::size_t>(rank);
        routers[r]->receive();
        if (chains[r]->has_work(waited)) chains[r]->look(waited, awaited[r]);
    }
    void look(std::chrono::duration<double> waited) {
        for (int turn = 0; turn < 2 * size(); ++turn)
            for (int r = 0; r < size(); ++r)
                if (awaited[static_cast<std::size_t>(r)] >= 0) look(r, waited);
        std::this_thread::sleep_for(timeout / 32);  // now a rank without an answer counts as silent
    }

    std::vector<int> awaited;  // by rank
    loopback_world world;
    std::vector<std::unique_ptr<endpoint>> nets;
    std::vector<std::unique_ptr<control_router>> routers;
    std::vector<std::unique_ptr<wait_chain>> chains;
};

}  // namespace

TEST(wait_chain, all_ranks_find_the_one_that_makes_no_call) {
    stuck_job job({3, 0, 1, -1, 2, 4, 0});
    job.look(timeout * 0.51);
    for (const int r : {0, 1, 2, 4, 5, 6}) EXPECT_EQ(job.chain(r).end(), 3) << "rank " << r;
    EXPECT_FALSE(job.chain(3).end());
}

TEST(wait_chain, nobody_asks_before_half_of_the_timeout) {
    stuck_job job({-1, 0});
    job.look(timeout * 0.49);
    EXPECT_FALSE(job.nets[0]->wire().take_control());
    EXPECT_FALSE(job.chain(1).end());
    EXPECT_FALSE(job.chain(1).is_open());
}

TEST(wait_chain, ranks_that_wait_for_one_another_find_nobody) {
    stuck_job job({1, 2, 0});
    job.look(timeout * 0.51);
    for (int r = 0; r < 3; ++r) EXPECT_FALSE(job.chain(r).end()) << "rank " << r;
}

TEST(wait_chain, what_a_rank_says_when_it_gives_up_counts_until_the_end) {
    stuck_job job({-1, 0, 1});
    job.look(timeout * 0.51);
    job.chain(1).give_up(0);
    job.look(2, timeout * 0.8);  // a new search, in which rank 1 does not answer
    job.look(2, timeout * 0.8);
    std::this_thread::sleep_for(timeout / 32);
    EXPECT_EQ(job.chain(2).end(), 0);
}

TEST(wait_chain, a_job_that_has_moved_on_is_searched_anew) {
    stuck_job job({-1, 0, 1});
    job.look(timeout * 0.51);
    EXPECT_EQ(job.chain(2).end(), 0);
    job.awaited = {2, -1, 1};
    job.look(timeout * 0.8);
    EXPECT_EQ(job.chain(2).end(), 1);
    EXPECT_EQ(job.chain(0).end(), 1);
}

TEST(wait_chain, a_question_is_open_until_it_is_answered) {
    stuck_job job({-1, 0});
    job.look(timeout * 0.51);
    EXPECT_TRUE(job.chain(1).is_open());
    job.awaited = {1, 0};
    job.look(timeout * 0.51);
    EXPECT_FALSE(job.chain(1).is_open());
}

}  // namespace terrace::detail::test::wait_chain_test
