// Memory that runs out in functions that must not throw: it is an error, and never ends the process.

#include <array>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>
#include <terrace/loopback.hpp>

#include "base/index.hpp"
#include "support/allocations.hpp"
#include "support/bad_calls.hpp"
#include "transport/loopback/loopback_transport.hpp"
#include "transport/shm/node_network.hpp"

namespace terrace::detail::test::out_of_memory_test {

namespace {

constexpr int slots = 64;

using pair_of_wires = std::array<std::unique_ptr<messages>, 2>;

pair_of_wires wires_in(loopback_world& world) {
    pair_of_wires made;
    std::array<std::jthread, 2> ranks;
    for (int r = 0; r < 2; ++r)
        ranks[at(r)] = std::jthread([&, r] {
            connection by = world.join(r);
            made[at(r)] = with_node_messages(by.net, by.memory)->connect(by.ranks, slots);
        });
    return made;
}

// Sends more messages than the ring holds, an unexpected one, one that is longer than expected, and control messages
// without a receiver.
void use(pair_of_wires& wires, std::vector<char>& memory) noexcept {
    constexpr std::size_t bytes = 8000;
    messages& from = *wires[0];
    messages& to = *wires[1];
    for (int i = 0; i < slots; ++i) from.send(i, 1, i, memory.data(), bytes);
    for (int i = 0; i < 40; ++i) from.send_control(1, {});
    for (int i = 0; i < 4; ++i) {
        static_cast<void>(to.poll());
        static_cast<void>(from.poll());
    }
    for (int i = 0; i < slots; ++i) to.recv(i, 0, i == slots - 1 ? 999 : i, memory.data(), i == 7 ? 8 : bytes);
    static_cast<void>(to.poll());
}

}  // namespace

TEST(out_of_memory, is_a_failure_of_messages_in_shared_memory) {
    int failures = 0;
    std::vector<char> memory(8000);
    for (int n = 0;; ++n) {
        loopback_world world(std::array{2});
        pair_of_wires wires = wires_in(world);
        {
            const memory_for some(n);
            use(wires, memory);
        }
        bool ran_out = false;
        for (const auto& wire : wires) wire->abandon();
        for (const auto& wire : wires)
            ran_out = ran_out || (wire->fault() && wire->fault()->message == "out of memory");
        if (!ran_out) {
            EXPECT_TRUE(wires[1]->fault()) << "of the message that is too long";
            break;
        }
        ++failures;
    }
    EXPECT_GT(failures, 20);
}

TEST(out_of_memory, is_an_error_of_calls_and_messages) {
    int failures = 0;
    constexpr int most = 60;
    for (int n = 0; n < most; ++n) {
        // After a failed call a peer may still read these vectors until the communicator is destroyed.
        std::array<std::vector<double>, 2> sums, received;
        try {
            loopback::run(plan_for(2), [&](communicator& comm) {
                const auto me = static_cast<std::size_t>(comm.rank());
                std::vector<double>& data = sums[me];
                data.assign(3000, 1);
                received[me].resize(3000);
                comm.allreduce(data);
                const memory_for some(comm.rank() == 0 ? n : -1);
                std::array<request, 2> both{comm.send_async(data, 1 - comm.rank()),
                                            comm.recv_async(received[me], 1 - comm.rank())};
                for (request& one : both) one.wait();
                comm.allreduce(data);
            });
        } catch (const std::bad_alloc&) {
            ++failures;
        } catch (const error&) {
            ++failures;
        }
    }
    EXPECT_GT(failures, 5);
    EXPECT_LT(failures, most) << "so much memory is enough";
}

}  // namespace terrace::detail::test::out_of_memory_test
