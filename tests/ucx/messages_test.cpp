// UCX's messages, without communicators. Ranks are threads.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/index.hpp"
#include "support/allocations.hpp"
#include "support/dice.hpp"
#include "support/effort.hpp"
#include "transport/loopback/loopback_transport.hpp"
#include "transport/shm/node_network.hpp"
#include "transport/ucx/ucx_module.hpp"

namespace terrace::detail::test {

namespace {

using namespace std::chrono_literals;

// A bootstrap that gives its rank another job key than the others get.
class wrong_key final : public bootstrap {
public:
    explicit wrong_key(std::shared_ptr<bootstrap> real) : bootstrap(real->node()), real_(std::move(real)) {}
    std::vector<std::string> exchange(std::span<const int> ranks, std::string_view key, std::string_view value,
                                      const wait_hook& look) override {
        std::vector<std::string> all = real_->exchange(ranks, key, value, look);
        if (ranks.front() == 0 && !all.front().empty()) all.front()[0] = static_cast<char>(all.front()[0] ^ 1);
        return all;
    }

private:
    const std::shared_ptr<bootstrap> real_;
};

std::shared_ptr<network> make_network() {
    const loaded_module m = load_module(module_for_ucx(), {}, sizeof(ucx_module));
    EXPECT_NE(m.table, nullptr) << m.trouble;
    const auto settings =
        std::make_shared<const ucx_settings>(ucx_settings{{"NET_DEVICES", "lo"}, {"TLS", "tcp,self"}});
    return reinterpret_cast<const ucx_module*>(m.table)->make(settings);
}

using rank_body = std::function<void(int rank, messages& wire)>;

constexpr int slots = 128;

// Runs `body` on ranks in nodes of these sizes. Inside nodes messages go through shared memory, but if there is only
// one node, all go by UCX. @param stranger the rank that has another key; -1: none
void on_all(const std::vector<int>& node_sizes, const rank_body& body, int stranger = -1) {
    loopback_world world(node_sizes);
    std::vector<std::jthread> ranks;
    for (int r = 0; r < std::accumulate(node_sizes.begin(), node_sizes.end(), 0); ++r)
        ranks.emplace_back([&, r] {
            // A stranger gets a team with another bootstrap, which wraps the world's.
            team all = world.join(r).ranks;
            if (r == stranger) all = team(std::make_shared<wrong_key>(world.boot(r)), r, all.size());
            std::shared_ptr<network> net = make_network();
            if (node_sizes.size() > 1) net = with_node_messages(net, std::make_shared<posix_regions>());
            const std::unique_ptr<messages> wire = net->connect(all, slots);
            body(r, *wire);
            all.exchange("done");
        });
}

void on_all(int size, const rank_body& body, int stranger = -1) { on_all(std::vector{size}, body, stranger); }

// Polls until `expected` slots have completed, the time limit, or a failure. Returns the number of completed slots.
int wait_for(messages& wire, int expected, std::chrono::milliseconds limit) {
    const auto begin = std::chrono::steady_clock::now();
    int done = 0;
    while (done < expected && !wire.fault() && std::chrono::steady_clock::now() - begin < limit) {
        done += static_cast<int>(wire.poll().size());
        wire.idle();
    }
    return done;
}

}  // namespace

TEST(ucx_messages, pass_between_ranks_in_the_order_sent) {
    on_all(3, [](int rank, messages& wire) {
        const int to = (rank + 1) % 3, from = (rank + 2) % 3;
        const std::array<int, 2> sent{rank, rank + 10};
        std::array<int, 2> got{};
        for (int n = 0; n < 2; ++n) {
            wire.recv(n, from, 5, &got[at(n)], sizeof(int));
            wire.send(2 + n, to, 5, &sent[at(n)], sizeof(int));
        }
        EXPECT_EQ(wait_for(wire, 4, 60s), 4);
        EXPECT_EQ(got, (std::array<int, 2>{from, from + 10}));
    });
}

// Rank 1 does not poll, so the last message waits in UCX for space in the socket.
TEST(ucx_messages, a_send_completes_though_a_former_peer_computes) {
    std::atomic<int> sent = 0;
    std::atomic<bool> over = false;
    on_all(3, [&](int rank, messages& wire) {
        std::vector<char> data(6000);
        int word = 0;
        if (rank == 0) {
            for (const int peer : {1, 2}) wire.send(peer, peer, 0, &word, sizeof word);
            EXPECT_EQ(wait_for(wire, 2, 60s), 2);
            int count = 0;
            do wire.send(0, 1, ++count, data.data(), data.size());
            while (wait_for(wire, 1, 50ms) == 1);
            sent = count;
            EXPECT_EQ(wait_for(wire, 1, 20s), 1);
            over = true;
            return;
        }
        wire.recv(0, 0, 0, &word, sizeof word);
        EXPECT_EQ(wait_for(wire, 1, 60s), 1);
        if (rank == 1) {
            while (sent == 0) std::this_thread::sleep_for(1ms);
            for (int n = 1; n <= sent; ++n) {
                wire.recv(0, 0, n, data.data(), data.size());
                EXPECT_EQ(wait_for(wire, 1, 20s), 1);
            }
        }
        while (!over) std::this_thread::sleep_for(1ms);
    });
}

TEST(ucx_messages, a_control_message_leaves_before_it_is_settled) {
    on_all(2, [](int rank, messages& wire) {
        if (rank == 0) {
            wire.send_control(1, {0, {1, 2, 3, 4, 5}});
            while (!wire.settled()) wire.idle();
            return;
        }
        std::optional<control_message> got;
        while (!(got = wire.take_control())) wire.idle();
        EXPECT_EQ(got->from, 0);
        EXPECT_EQ(got->words[4], 5u);
    });
}

TEST(ucx_messages, whoever_has_another_job_key_is_not_heard_and_disturbs_nobody) {
    on_all(
        3,
        [](int rank, messages& wire) {
            int sent = rank, got = -1;
            if (rank == 2) {
                wire.send(0, 0, 7, &sent, sizeof sent);
                wire.send_control(1, {});
                EXPECT_EQ(wait_for(wire, 1, 300ms), 0);
                EXPECT_FALSE(wire.settled());
            } else {
                int of_stranger = -1;
                wire.recv(2, 2, 7, &of_stranger, sizeof of_stranger);
                wire.recv(0, 1 - rank, 7, &got, sizeof got);
                wire.send(1, 1 - rank, 7, &sent, sizeof sent);
                EXPECT_EQ(wait_for(wire, 3, 400ms), 2);
                EXPECT_EQ(got, 1 - rank);
                EXPECT_EQ(of_stranger, -1);
                EXPECT_FALSE(wire.take_control());
            }
            EXPECT_FALSE(wire.fault()) << wire.fault()->message;
            wire.abandon();
        },
        2);
}

TEST(ucx_messages, a_peer_that_closes_is_no_failure_unless_something_is_expected_of_it) {
    on_all(2, [](int rank, messages& wire) {
        int word = 7;
        if (rank == 0) {
            wire.send(0, 1, 1, &word, sizeof word);
            EXPECT_EQ(wait_for(wire, 1, 60s), 1);
            return;  // closes the connection
        }
        wire.recv(0, 0, 1, &word, sizeof word);
        EXPECT_EQ(wait_for(wire, 1, 60s), 1);
        for (int n = 0; n < 100; ++n) wire.idle();
    });
}

TEST(ucx_messages, a_message_that_is_too_long_is_a_failure) {
    on_all(2, [](int rank, messages& wire) {
        std::array<char, 16> text{};
        if (rank == 0) wire.send(0, 1, 1, text.data(), 16);
        else wire.recv(0, 0, 1, text.data(), 8);
        wait_for(wire, 1, 60s);
        EXPECT_EQ(wire.fault().has_value(), rank == 1);
    });
}

bool ran_out(const messages& wire) { return wire.fault() && wire.fault()->message == "out of memory"; }

// Memory runs out in messages to a peer that has not answered yet, in control messages, or while messages end.
TEST(ucx_messages, memory_that_runs_out_is_a_failure) {
    int failures = 0;
    bool failed = true;
    for (int n = 0; failed; ++n) {
        std::atomic<bool> over = false;
        int word = 0;
        std::array<int, 8> words{};  // outlives the wires, into which data may arrive
        on_all(2, [&](int rank, messages& wire) {
            if (rank == 1) {
                for (int slot = 0; slot < 8; ++slot) wire.recv(slot, 0, slot, &words[at(slot)], sizeof(int));
                for (int i = 0; i < 4; ++i) wire.send_control(0, {});
                while (!over) wire.idle();
                return;
            }
            {
                const memory_for some(n);
                for (int slot = 0; slot < 8; ++slot) wire.send(slot, 1, slot, &word, sizeof word);
                for (int i = 0; i < 40; ++i) wire.send_control(1, {});
                for (int i = 0; i < 100; ++i) static_cast<void>(wire.poll());
                wire.abandon();
            }
            failed = ran_out(wire);
            failures += failed;
            over = true;
        });
    }
    EXPECT_GE(failures, 2);
}

TEST(ucx_messages, without_memory_a_message_that_is_too_long_is_a_failure_still) {
    std::atomic<bool> without_memory = false;  // the failure must occur after this
    on_all(2, [&](int rank, messages& wire) {
        std::array<char, 16> text{};
        wire.send(0, 1 - rank, 1, text.data(), 1);
        wire.recv(1, 1 - rank, 1, text.data(), 1);
        EXPECT_EQ(wait_for(wire, 2, 60s), 2);
        if (rank == 1) {
            while (!without_memory) std::this_thread::sleep_for(1ms);
            wire.send(0, 0, 2, text.data(), 16);
            wait_for(wire, 1, 60s);
            return;
        }
        wire.recv(0, 1, 2, text.data(), 8);
        {
            const memory_for nothing(0);
            without_memory = true;
            wait_for(wire, 1, 60s);
        }
        EXPECT_TRUE(ran_out(wire));
    });
}

// Messages of all lengths through shared memory and UCX. Each rank posts its sends and receives in a different order.
TEST(ucx_messages, at_random_on_both_ways_arrive_whole_and_in_order) {
    struct one {
        int from, to, tag;
        std::size_t bytes;
    };
    constexpr int rounds = 12, each = 24;  // messages that a rank sends in a round
    on_all({2, 2}, [](int rank, messages& wire) {
        dice common(seed()), own(seed() + at(rank));
        for (int round = 0; round < rounds; ++round) {
            std::vector<one> all;
            for (int from = 0; from < 4; ++from)
                for (int m = 0; m < each; ++m) {
                    constexpr std::size_t longest[] = {1, 60, 10'000, 300'000};
                    const std::size_t most = m == 3 ? (4 << 20) + 1 : longest[common.below(4)];
                    all.push_back({from, (from + 1 + static_cast<int>(common.below(3))) % 4,
                                   static_cast<int>(common.below(3)), common.below(most)});
                }
            const auto pattern = [&](std::size_t m) {
                std::vector<unsigned char> data(all[m].bytes);
                for (std::size_t i = 0; i < data.size(); ++i)
                    data[i] = static_cast<unsigned char>(5 * i + m + at(round));
                return data;
            };
            std::vector<std::size_t> sends, receives;
            for (std::size_t m = 0; m < all.size(); ++m) {
                if (all[m].from == rank) sends.push_back(m);
                if (all[m].to == rank) receives.push_back(m);
            }
            // Receives of each pair and tag are in the order sent.
            std::stable_sort(receives.begin(), receives.end(), [&](std::size_t a, std::size_t b) {
                return (all[a].tag + rank) % 3 < (all[b].tag + rank) % 3;
            });
            std::vector<std::vector<unsigned char>> data(all.size());
            std::size_t sent = 0, posted = 0;
            while (sent < sends.size() || posted < receives.size()) {
                const bool sending = posted == receives.size() || (sent < sends.size() && own.coin());
                const int slot = static_cast<int>(sent + posted);
                const std::size_t m = sending ? sends[sent++] : receives[posted++];
                if (sending) {
                    data[m] = pattern(m);
                    wire.send(slot, all[m].to, all[m].tag, data[m].data(), data[m].size());
                } else {
                    data[m].resize(all[m].bytes);
                    wire.recv(slot, all[m].from, all[m].tag, data[m].data(), data[m].size());
                }
                if (own.below(8) == 0) wire.idle();
            }
            ASSERT_EQ(wait_for(wire, static_cast<int>(sent + posted), 60s), static_cast<int>(sent + posted))
                << (wire.fault() ? wire.fault()->message : "");
            for (const std::size_t m : receives) ASSERT_EQ(data[m], pattern(m)) << "message " << m;
        }
    });
}

}  // namespace terrace::detail::test
