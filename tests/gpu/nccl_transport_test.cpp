// Device buffers on the stand-in for CUDA and NCCL: shows nothing about a GPU.

#include <terrace/device.hpp>
#include <terrace/loopback.hpp>

#include <algorithm>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "gpu/stand_in_buffers.hpp"
#include "transport/nccl/module.hpp"

namespace terrace::detail::test {

// The caller's stream copies the input before each call and the result after it. The caller waits only after the last
// copy.
TEST(gpu_streams, calls_run_between_what_is_before_and_behind_them) {
    constexpr std::size_t count = 5003;
    for (const hierarchy& m : {machine({2, 2}), machine({4, 2}), machine({2, 2, 2}), uneven()})
        for (const char* algorithm : {"ring", "halving", "direct", "nccl"}) {
            gpu_stand_in gpus({.concurrent = m.ranks() == 8, .seed = 3});
            const auto thrown = run_on_stand_in(
                gpus, all_stages(m, algorithm, 3, 4096),
                [&](communicator& comm) {
                    constexpr std::size_t turns = 4;
                    const gpu_runtime& gpu = gpus.runtime();
                    device_buffer data(gpus, count), in(gpus, count * turns), out(gpus, count * turns);
                    const gpu_stream stream = gpus.make_stream(comm.rank());
                    for (std::size_t turn = 0; turn < turns; ++turn)
                        fill(in.data() + count * turn, comm.rank(), count, static_cast<int>(turn));
                    for (std::size_t turn = 0; turn < turns; ++turn) {
                        gpu.copy(data.data(), in.data() + count * turn, count * sizeof(float), stream);
                        nccl::allreduce(comm, data.span(), reduce_op::sum, stream);
                        gpu.copy(out.data() + count * turn, data.data(), count * sizeof(float), stream);
                    }
                    gpus.wait_for(stream);
                    for (std::size_t turn = 0; turn < turns; ++turn)
                        EXPECT_EQ(wrong(out.data() + count * turn, comm.size(), count, static_cast<int>(turn)), 0)
                            << algorithm << ", turn " << turn;
                },
                patient());
            expect_well(gpus, thrown);
        }
}

TEST(gpu_streams, every_collective) {
    for (const char* algorithm : {"direct", "nccl"}) {
        const hierarchy m = machine({2, 2});
        const bool by_nccl = std::string_view(algorithm) == "nccl";
        const plan both = with_roots(all_stages(m, algorithm, 2, 1024),
                                     all_stages(m, by_nccl ? "nccl" : "tree", 2, 1024, mode::root));
        gpu_stand_in gpus({});
        const auto thrown = run_on_stand_in(
            gpus, both, [&](communicator& comm) { run_others(gpus, comm, 301); }, patient());
        expect_well(gpus, thrown);
    }
}

// By functions with a stream, and by members that start calls and wait.
TEST(gpu_streams, blocks_of_the_callers_counts) {
    for (const char* algorithm : {"direct", "nccl"}) {
        gpu_stand_in gpus({});
        const auto thrown = run_on_stand_in(
            gpus, all_stages(machine({2, 2}), algorithm, 2, 1024),
            [&](communicator& comm) {
                const std::vector<std::int64_t> counts{300, 0, 17, 100};
                const auto me = static_cast<std::size_t>(comm.rank()), own = static_cast<std::size_t>(counts[me]);
                constexpr std::size_t all = 417;
                device_buffer whole(gpus, all), mine(gpus, own + 1), gathered(gpus, all), again(gpus, all);
                fill(whole.data(), comm.rank(), all);
                const device_span<float> block = mine.span().subspan(0, own);
                const gpu_stream stream = gpus.make_stream(comm.rank());
                nccl::reduce_scatter(comm, whole.span(), block, counts, reduce_op::sum, stream);
                nccl::allgather(comm, block, gathered.span(), counts, stream);
                nccl::synchronize(comm);
                EXPECT_EQ(wrong(gathered.data(), comm.size(), all), 0);
                mine.data()[0] = 0;
                const std::span<float> block_by_member(mine.data(), own), all_of_it(again.data(), all);
                comm.reduce_scatter_async(std::span(whole.data(), all), block_by_member, counts).wait();
                comm.allgather_async(block_by_member, all_of_it, counts).wait();
                EXPECT_EQ(wrong(again.data(), comm.size(), all), 0);
                EXPECT_THROW(nccl::allgather(comm, block, whole.span().subspan(0, 5), counts, stream), usage_error);
            },
            patient());
        expect_well(gpus, thrown);
    }
}

// The part of the vector that divides evenly among ranks uses NCCL's collectives, the rest messages.
TEST(gpu_stages, bodies_go_to_nccl_and_tails_by_messages) {
    const auto calls_of = [](std::size_t count, reduce_op op) {
        gpu_stand_in gpus({});
        const auto thrown = run_on_stand_in(
            gpus, all_stages(machine({4, 2}), "nccl"),
            [&](communicator& comm) {
                device_buffer data(gpus, count);
                std::fill_n(data.data(), count, 1.0f);
                nccl::allreduce(comm, data.span(), op, gpus.make_stream(comm.rank()));
                nccl::synchronize(comm);
            },
            patient());
        expect_well(gpus, thrown);
        return gpus.calls();
    };
    auto even = calls_of(8 * 16 * 5, reduce_op::sum);
    EXPECT_EQ(even["ncclReduceScatter"], 8);
    EXPECT_EQ(even["ncclAllReduce"], 8);  // outermost stage, up and down in one call
    EXPECT_EQ(even["ncclAllGather"], 8);
    EXPECT_EQ(even["ncclSend"], 0);
    auto odd = calls_of(8 * 16 * 5 + 77, reduce_op::sum);
    EXPECT_EQ(odd["ncclReduceScatter"], 8);
    EXPECT_EQ(odd["ncclAllGather"], 8);
    EXPECT_GT(odd["ncclSend"], 0);
    EXPECT_EQ(odd["ncclSend"], odd["ncclRecv"]);
    auto with_nan = calls_of(8 * 16 * 5, reduce_op::max);  // NCCL's max need not propagate NaN
    EXPECT_EQ(with_nan["ncclReduceScatter"] + with_nan["ncclAllReduce"], 0);
    EXPECT_GT(with_nan["combine"], 0);
}

TEST(gpu_calls, host_and_device_buffers_share_a_communicator) {
    gpu_stand_in gpus({});
    const auto thrown = run_on_stand_in(
        gpus, all_stages(machine({2, 2}), "nccl", 2, 1024),
        [&](communicator& comm) {
            constexpr std::size_t count = 1000;
            device_buffer there(gpus, count);
            std::vector<float> here(count);
            for (int turn = 0; turn < 3; ++turn) {
                allreduce_both(comm, there, here, turn);
            }
            EXPECT_THROW(comm.allreduce(here, std::span(there.data(), count)), usage_error);
        },
        patient());
    expect_well(gpus, thrown);
}

TEST(gpu_calls, calls_that_differ_are_errors_on_all_ranks) {
    gpu_stand_in gpus({});
    const auto thrown = run_on_stand_in(
        gpus, all_stages(machine({2, 2}), "ring"),
        [&](communicator& comm) { allreduce_once(gpus, comm, comm.rank() == 2 ? 100 : 101); }, patient());
    for (const std::exception_ptr& t : thrown) EXPECT_NE(text_of(t).find("usage: "), std::string::npos) << text_of(t);
    for (const std::string& what : gpus.violations()) ADD_FAILURE() << what;
    EXPECT_EQ(gpus.left(), "");
}

// NCCL has no tags, and its streams decide the order of calls.
TEST(gpu_calls, messages_callbacks_and_numbers_are_refused_by_name) {
    gpu_stand_in gpus({});
    const auto thrown = run_on_stand_in(
        gpus, all_stages(machine({2}), "nccl"),
        [&](communicator& comm) {
            device_buffer there(gpus, 100);
            const std::span<float> data(there.data(), 100);
            const auto refused = [](const auto& action, std::string_view why) {
                try {
                    action();
                    ADD_FAILURE() << "accepted: " << why;
                } catch (const usage_error& e) {
                    EXPECT_NE(std::string_view(e.what()).find(why), std::string_view::npos) << e.what();
                }
            };
            refused([&] { comm.send(data, 0); }, "NCCL has no tags");
            refused([&] { comm.recv(data, any_source); }, "no receive from any source");
            request r = comm.allreduce_async(data);
            refused([&] { r.then([](const std::exception_ptr&) {}); }, "cudaLaunchHostFunc");
            comm.group_start(0);
            refused([&] { comm.allreduce_async(data).wait(); }, "groups with numbers are for buffers of the host");
            comm.group_end();
            nccl::synchronize(comm);
        },
        patient());
    expect_well(gpus, thrown);
}

TEST(gpu_calls, a_split_has_its_own_communicators) {
    gpu_stand_in gpus({});
    const auto thrown = run_on_stand_in(
        gpus, all_stages(machine({4, 2}), "nccl"),
        [&](communicator& comm) {
            std::optional<communicator> part = comm.split(comm.rank() % 3 == 0 ? 1 : 0);
            ASSERT_TRUE(part.has_value());
            device_buffer data(gpus, 500);
            fill(data.data(), part->rank(), 500);
            nccl::allreduce(*part, data.span(), reduce_op::sum, gpus.make_stream(comm.rank()));
            nccl::synchronize(*part);
            EXPECT_EQ(wrong(data.data(), part->size(), 500), 0);
            allreduce_once(gpus, comm, 700);
        },
        patient());
    expect_well(gpus, thrown);
}

TEST(gpu_calls, a_communicator_without_a_device_says_so) {
    const plan p = all_stages(machine({2, 1}), "ring");
    loopback::run(p, [](communicator& comm) {
        try {
            nccl::allreduce(comm, device_span<float>(), reduce_op::sum, nullptr);
            ADD_FAILURE() << "accepted";
        } catch (const usage_error& e) {
            EXPECT_NE(std::string_view(e.what()).find("terrace::nccl::create"), std::string_view::npos);
        }
    });
}

// -- graphs

// Captured calls run at each launch of the graph, between other calls, with changed input.
TEST(gpu_graphs, captured_calls_run_again) {
    constexpr std::size_t count = 4001;
    for (const hierarchy& m : {machine({2, 2}), uneven()})
        for (const char* algorithm : {"ring", "nccl"}) {
            gpu_stand_in gpus({.concurrent = m.ranks() == 4, .seed = 5});
            const auto thrown = run_on_stand_in(
                gpus, all_stages(m, algorithm, 2, 4096),
                [&](communicator& comm) {
                    const int me = comm.rank(), ranks = comm.size();
                    device_buffer data(gpus, count), other(gpus, count);
                    const gpu_stream stream = gpus.make_stream(me);
                    gpus.begin_capture(stream);
                    nccl::allreduce(comm, data.span(), reduce_op::sum,
                                    stream);  // first of its shape: allocates, too
                    nccl::allreduce(comm, other.span(), reduce_op::sum, stream);
                    const auto graph = gpus.end_capture(stream);
                    for (int turn = 0; turn < 4; ++turn) {
                        fill(data.data(), me, count, turn);
                        fill(other.data(), me, count, turn + 1);
                        gpus.launch(graph, stream);
                        if (turn % 2 == 0)
                            nccl::allreduce(comm, data.span(), reduce_op::max, stream);  // equal inputs by now
                        gpus.wait_for(stream);
                        EXPECT_EQ(wrong(data.data(), ranks, count, turn), 0) << algorithm << ", turn " << turn;
                        EXPECT_EQ(wrong(other.data(), ranks, count, turn + 1), 0) << algorithm << ", turn " << turn;
                    }
                    nccl::synchronize(comm);
                },
                patient());
            expect_well(gpus, thrown);
        }
}

// A graph's program stays at its addresses, however many shapes follow.
TEST(gpu_graphs, programs_of_captured_calls_are_kept) {
    constexpr std::size_t count = 4001, others = 40;
    gpu_stand_in gpus({.seed = 6});
    const auto thrown = run_on_stand_in(
        gpus, all_stages(machine({2, 2}), "direct", 2, 4096),
        [&](communicator& comm) {
            device_buffer data(gpus, count);
            const gpu_stream stream = gpus.make_stream(comm.rank());
            gpus.begin_capture(stream);
            nccl::allreduce(comm, data.span(), reduce_op::sum, stream);
            const auto graph = gpus.end_capture(stream);
            for (std::size_t n = 1; n <= others; ++n) {
                nccl::allreduce(comm, data.span().subspan(0, n), reduce_op::sum, stream);
                gpus.wait_for(stream);
            }
            fill(data.data(), comm.rank(), count);
            gpus.launch(graph, stream);
            gpus.wait_for(stream);
            EXPECT_EQ(wrong(data.data(), comm.size(), count), 0);
            nccl::synchronize(comm);
        },
        patient());
    expect_well(gpus, thrown);
}

// NCCL keeps communicators that a graph uses. Only a separate thread waits for the graph's end.
TEST(gpu_graphs, that_live_on_hold_up_neither_errors_nor_the_end) {
    for (const bool one_dies : {true, false}) {
        gpu_stand_in gpus({.remote_errors = false});
        options o = patient(0.3);
        o.check = options::checking::off;
        std::vector<std::shared_ptr<gpu_stand_in::graph>> graphs(4);
        std::atomic<int> through{0};
        const auto thrown = run_on_stand_in(
            gpus, all_stages(machine({2, 2}), "nccl"),
            [&](communicator& comm) {
                device_buffer data(gpus, 256);
                const gpu_stream stream = gpus.make_stream(comm.rank());
                gpus.begin_capture(stream);
                nccl::allreduce(comm, data.span(), reduce_op::sum, stream);
                graphs[static_cast<std::size_t>(comm.rank())] = gpus.end_capture(stream);
                allreduce_once(gpus, comm, 256);
                if (one_dies && comm.rank() != 3) {
                    nccl::allreduce(comm, data.span(), reduce_op::sum, stream);
                    EXPECT_THROW(nccl::synchronize(comm), timeout_error);
                }
                ++through;
                while (through < comm.size()) std::this_thread::yield();
            },
            o, false);
        EXPECT_NE(gpus.left(), "") << "the graphs live";
        graphs.clear();
        for (int n = 0; n < 5000 && !gpus.left().empty(); ++n)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        expect_well(gpus, thrown);
    }
}

// -- averages

// The sum of these elements would be infinite.
TEST(gpu_averages, of_float16_overflow_no_sooner_than_on_the_host) {
    gpu_stand_in gpus({.any_memory = true});
    const auto thrown = run_on_stand_in(
        gpus, all_stages(machine({2, 1}), "nccl"),
        [&](communicator& comm) {
            std::vector<float16> data(64, float16(60000));
            nccl::allreduce(comm, device_span<float16>(data.data(), data.size()), reduce_op::avg,
                            gpus.make_stream(comm.rank()));
            nccl::synchronize(comm);
            for (const float16 x : data) EXPECT_EQ(static_cast<float>(x), 60000);
        },
        patient());
    expect_well(gpus, thrown);
}

// -- roots

// Each root has its own NCCL groups, created at its first call.
TEST(gpu_roots, have_groups_of_their_own) {
    const hierarchy m = machine({2, 2});
    gpu_stand_in gpus({});
    const auto thrown = run_on_stand_in(
        gpus, all_stages(m, "nccl", 1, 0, mode::root),
        [&](communicator& comm) {
            device_buffer data(gpus, 256), result(gpus, 256);
            const gpu_stream stream = gpus.make_stream(comm.rank());
            for (int turn = 0; turn < 2; ++turn)
                for (int root = 0; root < comm.size(); ++root) {
                    fill(data.data(), comm.rank(), 256, turn);
                    nccl::broadcast(comm, data.span(), root, stream);
                    gpus.wait_for(stream);
                    for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(data.data()[i], input(root, i, turn));
                    fill(data.data(), comm.rank(), 256, turn);
                    nccl::reduce(comm, device_span<const float>(data.span()), result.span(), root, reduce_op::sum,
                                 stream);
                    gpus.wait_for(stream);
                    if (comm.rank() == root) {
                        EXPECT_EQ(wrong(result.data(), comm.size(), 256, turn), 0);
                    }
                }
        },
        patient());
    expect_well(gpus, thrown);
    const auto calls = gpus.calls();
    // In each of eight calls: two ranks in each of two nodes, and one rank of each node between nodes.
    EXPECT_EQ(calls.at("ncclBroadcast"), 8 * (4 + 2));
    EXPECT_EQ(calls.at("ncclReduce"), 8 * (4 + 2));
    EXPECT_EQ(calls.count("ncclSend"), 0u);
}

// -- the module

TEST(gpu_module, says_what_is_missing_and_what_to_do) {
    const gpu_module none = load_gpu_module("/nowhere/terrace-nccl.so");
    EXPECT_EQ(none.runtime, nullptr);
    EXPECT_NE(none.trouble.find("/nowhere/terrace-nccl.so"), std::string::npos) << none.trouble;
    EXPECT_NE(none.trouble.find("LD_LIBRARY_PATH"), std::string::npos) << none.trouble;
}

}  // namespace terrace::detail::test
