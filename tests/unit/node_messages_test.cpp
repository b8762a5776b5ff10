// Messages in memory that ranks of a node share, in front of a network. Ranks are threads.

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/index.hpp"
#include "support/dice.hpp"
#include "support/effort.hpp"
#include "transport/loopback/loopback_transport.hpp"
#include "transport/shm/node_messages.hpp"
#include "transport/shm/node_network.hpp"

namespace terrace::detail::test::node_messages_test {

namespace {

constexpr std::size_t capacity = 1024;

struct alignas(64) ring_memory {
    std::array<std::byte, record_ring::bytes_for(capacity)> bytes{};
};

// Counts the messages that go over the network.
class counting_messages final : public messages {
public:
    counting_messages(std::unique_ptr<messages> real, std::atomic<int>& sends)
        : messages(real->traits()), real_(std::move(real)), sends_(sends) {}
    void send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept override {
        ++sends_;
        real_->send(slot, peer, tag, from, bytes);
    }
    void recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept override {
        real_->recv(slot, peer, tag, to, bytes);
    }
    std::span<const int> poll() noexcept override { return real_->poll(); }
    void send_control(int peer, const control_message& m) noexcept override { real_->send_control(peer, m); }
    std::optional<control_message> take_control() noexcept override { return real_->take_control(); }
    bool abandon() noexcept override { return real_->abandon(); }

private:
    const std::unique_ptr<messages> real_;
    std::atomic<int>& sends_;
};

class counting_network final : public network {
public:
    counting_network(std::shared_ptr<network> real, std::atomic<int>& sends)
        : network(real->traits()), real_(std::move(real)), sends_(sends) {}
    std::unique_ptr<messages> connect(team& ranks, int slots) override {
        return std::make_unique<counting_messages>(real_->connect(ranks, slots), sends_);
    }

private:
    const std::shared_ptr<network> real_;
    std::atomic<int>& sends_;
};

using rank_body = std::function<void(int rank, messages& wire)>;
using connector = std::function<std::unique_ptr<messages>(connection& by, std::atomic<int>& sends, int slots)>;

std::unique_ptr<messages> through_memory(connection& by, std::atomic<int>& sends, int slots) {
    const auto behind = std::make_shared<counting_network>(by.net, sends);
    return with_node_messages(behind, by.memory)->connect(by.ranks, slots);
}

// Connects ranks that may not read each other's memory.
std::unique_ptr<messages> through_rings_alone(connection& by, std::atomic<int>& sends, int slots) {
    std::unique_ptr<messages> behind = counting_network(by.net, sends).connect(by.ranks, slots);
    node_messages::node on{peers_of(by.ranks.nodes(), by.ranks.rank()), {}, 0, {}};
    const int ranks = static_cast<int>(on.peers.ranks.size());
    on.memory = by.memory->share(by.ranks, on.peers.ranks, node_messages::part_bytes(ranks, slots)).value();
    on.capacity = node_messages::ring_capacity(ranks);
    return std::make_unique<node_messages>(std::move(behind), by.ranks.rank(), std::move(on), slots);
}

// Runs `body` on the ranks of these nodes. Returns the number of messages that went over the network.
int on_all(const std::vector<int>& nodes, const rank_body& body, const connector& connect = through_memory,
           int slots = 64) {
    loopback_world world(nodes);
    std::atomic<int> sends = 0;
    {
        std::vector<std::jthread> ranks;
        for (int r = 0; r < std::accumulate(nodes.begin(), nodes.end(), 0); ++r)
            ranks.emplace_back([&, r] {
                connection by = world.join(r);
                const std::unique_ptr<messages> wire = connect(by, sends, slots);
                body(r, *wire);
                by.ranks.exchange("done");
            });
    }
    return sends;
}

// Polls until this number of slots has completed, or the network has failed.
void wait_for(messages& wire, int slots) {
    for (int done = 0; done < slots && !wire.fault() && wire.lost().empty();) {
        done += static_cast<int>(wire.poll().size());
        wire.idle();
    }
}

std::vector<char> pattern(int from, int to, int number, std::size_t bytes) {
    std::vector<char> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(from * 31 + to * 7 + number + at(3) * i);
    return data;
}

}  // namespace

TEST(record_ring, records_come_whole_and_in_order_whatever_their_lengths) {
    ring_memory memory;
    record_ring writer(memory.bytes.data(), capacity), reader(memory.bytes.data(), capacity);
    dice d(seed());
    std::uint64_t written = 0, read = 0;
    const auto stored = [](std::uint64_t n) { return pattern(0, 0, static_cast<int>(n), n * 13 % 480); };
    for (int turn = 0; turn < 20'000; ++turn) {
        if (d.coin()) {
            const std::vector<char> next = stored(written);
            written += writer.write({7, 3, static_cast<std::uint32_t>(next.size()), 2, written}, next.data());
        } else if (d.below(4) == 0) {
            const std::uint64_t before = read;
            const bool any = reader.read([&](const record_ring::header& h, const std::byte* bytes) {
                const std::vector<char> expected = stored(read);
                EXPECT_EQ(h.bytes, read++);
                ASSERT_EQ(h.stored, expected.size());
                EXPECT_TRUE(std::equal(expected.begin(), expected.end(), reinterpret_cast<const char*>(bytes)));
            });
            EXPECT_EQ(any, read != before);
            EXPECT_EQ(read, written);
        }
    }
    EXPECT_GT(read, 1000u);
}

TEST(record_ring, a_full_one_refuses_until_it_is_read) {
    ring_memory memory;
    record_ring writer(memory.bytes.data(), capacity), reader(memory.bytes.data(), capacity);
    const std::array<char, 100> bytes{};
    int fit = 0;
    while (writer.write({0, 0, 100, 0, 0}, bytes.data())) ++fit;
    EXPECT_EQ(fit, 1024 / 128);
    int read = 0;
    reader.read([&](const auto&, const auto*) { ++read; });
    EXPECT_EQ(read, fit);
    EXPECT_TRUE(writer.write({0, 0, 100, 0, 0}, bytes.data()));
}

namespace {

constexpr std::array<std::size_t, 3> all_ways{0, 5000, 100'000};  // [bytes]

// Each of three ranks sends messages to each other rank.
void exchange_all(int rank, messages& wire) {
    std::array<std::array<std::vector<char>, all_ways.size()>, 3> sent, got;
    int slot = 0;
    for (int peer = 0; peer < 3; ++peer)
        for (std::size_t s = 0; peer != rank && s < all_ways.size(); ++s) {
            sent[at(peer)][s] = pattern(rank, peer, 0, all_ways[s]);
            got[at(peer)][s].resize(all_ways[s]);
            wire.recv(slot++, peer, 1, got[at(peer)][s].data(), all_ways[s]);
            wire.send(slot++, peer, 1, sent[at(peer)][s].data(), all_ways[s]);
        }
    wait_for(wire, slot);
    for (int peer = 0; peer < 3; ++peer)
        for (std::size_t s = 0; peer != rank && s < all_ways.size(); ++s)
            EXPECT_EQ(got[at(peer)][s], pattern(peer, rank, 0, all_ways[s]));
}

}  // namespace

TEST(node_messages, the_network_carries_what_leaves_the_node_and_nothing_else) {
    EXPECT_EQ(on_all({3}, exchange_all), 0);
    EXPECT_EQ(on_all({2, 1}, exchange_all), 4 * static_cast<int>(all_ways.size()));
    EXPECT_EQ(on_all({1, 1, 1}, exchange_all), 6 * static_cast<int>(all_ways.size()));
}

TEST(node_messages, the_network_carries_long_ones_where_memory_may_not_be_read) {
    EXPECT_EQ(on_all({3}, exchange_all, through_rings_alone), 6);
}

// More messages than a ring holds, sent before they are received, and in another order.
TEST(node_messages, early_and_control_messages_wait_without_their_receiver) {
    constexpr int many = 300;
    on_all(
        {2},
        [](int rank, messages& wire) {
            std::vector<std::vector<char>> data;
            const auto bytes_of = [](int n) { return n % 9 == 0 ? std::size_t{50'000} : at(n * 37 % 3000); };
            if (rank == 0) {
                for (int n = 0; n < many; ++n) {
                    data.push_back(pattern(0, 1, n, bytes_of(n)));
                    wire.send(n, 1, n % 4, data.back().data(), data.back().size());
                    if (n % 3 == 0) wire.send_control(1, {0, {1, 2, 3, 4, at(n)}});
                }
                return wait_for(wire, many);
            }
            for (int n = 0; n < many; n += 3) {
                std::optional<control_message> got;
                while (!(got = wire.take_control())) wire.idle();
                EXPECT_EQ(got->from, 0);
                EXPECT_EQ(got->words[4], at(n));
            }
            for (const int tag : {3, 1, 0, 2})
                for (int n = tag; n < many; n += 4) {
                    data.emplace_back(bytes_of(n));
                    wire.recv(0, 0, tag, data.back().data(), data.back().size());
                    wait_for(wire, 1);
                    EXPECT_EQ(data.back(), pattern(0, 1, n, bytes_of(n)));
                }
        },
        through_memory, many);
}

// A receive may be longer than its message, in a ring, and if data are read from the sender's memory.
TEST(node_messages, a_message_may_be_shorter_than_there_is_room) {
    on_all({2, 1}, [](int rank, messages& wire) {
        EXPECT_TRUE(wire.traits().takes_shorter);
        for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, std::size_t{20'000}}) {
            const std::vector<char> sent = pattern(0, 1, 0, bytes);
            std::vector<char> got(50'000);
            if (rank == 0) wire.send(0, 1, 1, sent.data(), bytes);
            if (rank == 1) wire.recv(0, 0, 1, got.data(), got.size());
            if (rank < 2) wait_for(wire, 1);
            EXPECT_TRUE(rank != 1 || std::equal(sent.begin(), sent.end(), got.begin()));
        }
    });
    on_all(
        {2}, [](int, messages& wire) { EXPECT_FALSE(wire.traits().takes_shorter); }, through_rings_alone);
}

TEST(node_messages, a_message_that_is_too_long_is_a_failure) {
    on_all({2}, [](int rank, messages& wire) {
        std::array<char, 16> text{};
        if (rank == 0) wire.send(0, 1, 1, text.data(), 16);
        else wire.recv(0, 0, 1, text.data(), 8);
        wait_for(wire, 1);
        EXPECT_EQ(wire.fault().has_value(), rank == 1);
    });
}

// The sender may have reused the memory of the message.
TEST(node_messages, what_its_sender_has_given_up_is_not_received) {
    std::atomic<bool> given_up = false;
    on_all({2}, [&](int rank, messages& wire) {
        std::vector<char> data(100'000);
        if (rank == 0) {
            wire.send(0, 1, 1, data.data(), data.size());
            EXPECT_TRUE(wire.poll().empty());
            wire.abandon();
            given_up = true;
            return;
        }
        while (!given_up) wire.idle();
        wire.recv(0, 0, 1, data.data(), data.size());
        wait_for(wire, 1);
        ASSERT_EQ(wire.lost().size(), 1u);
        EXPECT_EQ(wire.lost()[0].why.message, "rank 0 of the plan: it has given up its messages");
    });
}

}  // namespace terrace::detail::test::node_messages_test
