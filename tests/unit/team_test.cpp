// Teams of ranks, which exchange values through a bootstrap. The ranks are threads.

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "transport/loopback/loopback_transport.hpp"
#include "transport/team.hpp"

namespace terrace::detail::test::team_test {

namespace {

using numbers = std::vector<int>;
using texts = std::vector<std::string>;

// Runs `body` on every rank of a world, and returns the ranks' results.
template <class Result>
std::vector<Result> on_all(const numbers& node_sizes, const std::function<Result(team&)>& body) {
    loopback_world world(node_sizes);
    int ranks = 0;
    for (const int size : node_sizes) ranks += size;
    std::vector<Result> results(at(ranks));
    {
        std::vector<std::jthread> threads;
        for (int r = 0; r < ranks; ++r)
            threads.emplace_back([&, r] {
                team all = world.join(r).ranks;
                results[at(r)] = body(all);
            });
    }
    return results;
}

std::string name_of(int rank) { return std::string(at(rank), '.') + std::to_string(rank); }

}  // namespace

TEST(team, exchanges_texts_of_any_length) {
    for (const texts& all : on_all<texts>({5}, [](team& t) { return t.exchange(name_of(t.rank())); }))
        EXPECT_EQ(all, (texts{"0", ".1", "..2", "...3", "....4"}));
    for (const texts& all : on_all<texts>({1}, [](team& t) { return t.exchange(""); })) EXPECT_EQ(all, texts{""});
}

TEST(team, gathers_bytes_and_hands_out_rank_0s_text) {
    for (const numbers& all : on_all<numbers>({3}, [](team& t) {
             const int own = 10 * t.rank();
             numbers each(at(t.size()));
             for (int turn = 0; turn < 3; ++turn) t.gather_all(&own, each.data(), sizeof own);
             return each;
         }))
        EXPECT_EQ(all, (numbers{0, 10, 20}));
    for (const std::string& text :
         on_all<std::string>({2, 2}, [](team& t) { return t.broadcast(name_of(t.rank() + 7)); }))
        EXPECT_EQ(text, name_of(7));
}

// Rank 0 may be far ahead of the ranks that receive its text.
TEST(team, rank_0_does_not_wait_where_it_hands_out_texts) {
    for (const texts& all : on_all<texts>({4}, [](team& t) {
             texts got;
             for (int turn = 0; turn < 100; ++turn) got.push_back(t.broadcast(std::to_string(turn)));
             return got;
         }))
        EXPECT_EQ(all.back(), "99");
}

TEST(team, splits_by_color_and_key_and_again) {
    const auto found = on_all<texts>({6}, [](team& t) {
        std::optional<team> half = t.split(t.rank() % 2, -t.rank());
        std::optional<team> first = half->split(half->rank() == 0 ? 3 : -1, 0);
        const texts members = half->exchange(std::to_string(t.rank()));
        return texts{members[0] + members[1] + members[2], std::to_string(half->rank()), first ? first->name() : "",
                     half->name()};
    });
    EXPECT_EQ(found[0], (texts{"420", "2", "", "/0:0"}));
    EXPECT_EQ(found[4], (texts{"420", "0", "/0:0/0:3", "/0:0"}));
    EXPECT_EQ(found[5], (texts{"531", "0", "/0:1/0:3", "/0:1"}));
}

// Two parts exchange at the same time, and not equally often.
TEST(team, parts_do_not_wait_for_each_other) {
    const auto found = on_all<int>({4}, [](team& t) {
        std::optional<team> half = t.split(t.rank() / 2, 0);
        int sum = 0;
        for (int turn = 0; turn < (t.rank() < 2 ? 50 : 3); ++turn)
            for (const std::string& each : half->exchange(std::to_string(t.rank()))) sum += std::stoi(each);
        return sum;
    });
    EXPECT_EQ(found, (numbers{50, 50, 15, 15}));
}

TEST(team, knows_who_shares_a_node) {
    for (const numbers& nodes : on_all<numbers>({2, 1, 3}, [](team& t) { return t.nodes(); }))
        EXPECT_EQ(nodes, (numbers{0, 0, 2, 3, 3, 3}));
    for (const numbers& nodes : on_all<numbers>({2, 1, 3}, [](team& t) { return t.split(0, -t.rank())->nodes(); }))
        EXPECT_EQ(nodes, (numbers{0, 0, 0, 3, 4, 4}));
}

// Ranks ask different numbers of times. If each question were an exchange, the ranks' keys would differ.
TEST(team, asks_once_who_shares_a_node) {
    for (const numbers& nodes : on_all<numbers>({2, 1, 3}, [](team& t) {
             t.nodes();
             for (int turn = 0; turn < t.rank(); ++turn) t.nodes();
             std::optional<team> backwards = t.split(0, -t.rank());
             for (int turn = 0; turn < t.rank(); ++turn) backwards->nodes();
             backwards->exchange("");
             return backwards->nodes();
         }))
        EXPECT_EQ(nodes, (numbers{0, 0, 0, 3, 4, 4}));
}

TEST(team, all_ranks_learn_who_differs) {
    for (const std::string& said : on_all<std::string>({4}, [](team& t) {
             try {
                 require_same(t, "all have this");
                 require_same(t, t.rank() == 2 ? "B" : "A");
             } catch (const plan_error& e) {
                 return std::string(e.what());
             }
             return std::string("nothing");
         }))
        EXPECT_EQ(said, "ranks differ: ranks 0-1, 3 have A; rank 2 has B");
}

TEST(team, an_exchange_ends_where_the_world_fails) {
    loopback_world world(numbers{2});
    std::string said;
    {
        std::jthread waits([&] {
            try {
                world.join(0).ranks.exchange("");
            } catch (const transport_error& e) {
                said = e.what();
            }
        });
        world.fail("the cable is cut");
    }
    EXPECT_NE(said.find("the cable is cut"), std::string::npos) << said;
}

TEST(this_node, is_the_same_whenever_asked) { EXPECT_EQ(this_node(), this_node()); }

}  // namespace terrace::detail::test::team_test
