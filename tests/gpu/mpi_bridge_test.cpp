#include "transport/nccl/bridged_messages.hpp"

#include <gtest/gtest.h>

#include "transport/loopback/loopback_transport.hpp"

namespace terrace::detail::test {

namespace {

using vector = std::vector<std::byte>;

// One of two ranks. The test does the work of its stream.
class end {
public:
    end(loopback_world& world, int rank) : peer_(1 - rank), bridge_(world.join(rank), {&at_}, false, {0, 1}, [] {}) {}

    void send(vector& data) {
        put([&] { bridge_.send(peer_, data.data(), data.size()); });
    }
    void recv(vector& data) {
        put([&] { bridge_.recv(peer_, data.data(), data.size()); });
    }
    void leave() { std::atomic_ref(at_.ready).store(number_, std::memory_order_release); }
    void wait_until_begun() const {
        while (bridge_.awaited().empty()) std::this_thread::yield();
    }
    void wait() {
        while (std::atomic_ref(at_.delivered).load(std::memory_order_acquire) != number_) std::this_thread::yield();
    }
    void give_up() { bridge_.give_up(); }

private:
    template <class Message>
    void put(Message message) {
        bridge_.open(0, "test");
        message();
        number_ = bridge_.close();
    }

    mpi_bridge::counters at_;
    std::uint32_t number_ = 0;
    int peer_;
    mpi_bridge bridge_;
};

struct pair {
    loopback_world world{std::vector{2}};
    end from{world, 0}, to{world, 1};
    vector sent = vector(100000, std::byte{1}), got = vector(sent.size());

    pair() {
        from.send(sent);
        to.recv(got);
    }
    // Reuses the sent buffer, as a stream does after the message.
    void overwrite() {
        from.wait();
        sent.assign(sent.size(), std::byte{2});
    }
    // Lets the receiver give up, too. Returns the data that it has received by then.
    const vector& got_at_last() {
        to.give_up();
        to.wait();
        return got;
    }
};

}  // namespace

TEST(mpi_bridge, delivers) {
    pair p;
    p.from.leave();
    p.to.leave();
    p.to.wait();
    p.overwrite();
    EXPECT_EQ(p.got, vector(p.sent.size(), std::byte{1}));
}

TEST(mpi_bridge, that_gives_up_hands_over_what_is_on_its_way_as_it_was) {
    for (int n = 0; n < 20; ++n) {
        pair p;
        p.from.leave();
        p.from.wait_until_begun();
        p.from.give_up();
        p.to.leave();
        p.overwrite();
        for (const std::byte b : p.got_at_last())
            ASSERT_NE(b, std::byte{2});  // some may be missing if this thread was late
    }
}

TEST(mpi_bridge, that_gives_up_takes_back_what_nobody_fetches) {
    pair p;
    p.from.leave();
    p.from.wait_until_begun();
    p.from.give_up();
    p.overwrite();
    p.to.leave();
    p.to.wait_until_begun();
    EXPECT_EQ(p.got_at_last(), vector(p.sent.size()));
}

TEST(mpi_bridge, that_gives_up_lets_no_parcel_leave) {
    pair p;
    p.to.leave();
    p.to.wait_until_begun();
    p.from.give_up();
    p.from.leave();
    p.overwrite();
    EXPECT_EQ(p.got_at_last(), vector(p.sent.size()));
}

}  // namespace terrace::detail::test
