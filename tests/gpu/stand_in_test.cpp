// The stand-in for GPUs detects deadlocks and broken rules.

#include <chrono>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "gpu/stand_in_buffers.hpp"

namespace terrace::detail::test {

TEST(stand_in, orders_that_differ_between_ranks_never_end) {
    gpu_stand_in gpus({.any_memory = true});
    const gpu_runtime& gpu = gpus.runtime();
    nccl_id ids[2];
    for (nccl_id& id : ids) gpu.make_id(&id);
    nccl_comm comms[2][2];  // by rank
    gpu_stream streams[2][2];
    for (int rank = 0; rank < 2; ++rank)
        for (int c = 0; c < 2; ++c) {
            gpu.use_device(rank);
            gpu.make_comm(&comms[rank][c], 2, &ids[c], rank, false);
            streams[rank][c] = gpus.make_stream(rank);
        }
    float data[2][2] = {{1, 2}, {3, 4}};
    for (int rank = 0; rank < 2; ++rank)
        for (int turn = 0; turn < 2; ++turn) {
            const int c = rank == 0 ? turn : 1 - turn;  // opposite order on rank 1
            for (int code = 1; code != 0;) gpu.status(comms[rank][c], &code);
            gpu.all_reduce(&data[rank][c], &data[rank][c], 1, element_type::float32, reduce_op::sum, comms[rank][c],
                           streams[rank][c]);
        }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    bool done = true;
    gpu.stream_done(streams[0][0], &done);
    EXPECT_FALSE(done);
    for (auto& of_rank : comms)
        for (const nccl_comm c : of_rank) gpu.abort(c);
    for (auto& of_rank : streams)
        for (const gpu_stream s : of_rank) gpus.wait_for(s);
    EXPECT_TRUE(gpus.violations().empty());
}

TEST(stand_in, broken_rules_are_named) {
    gpu_stand_in gpus({});
    const gpu_runtime& gpu = gpus.runtime();
    nccl_id id;
    gpu.make_id(&id);
    nccl_comm comms[2];
    gpu_stream streams[2];
    float* data[2];
    for (int rank = 0; rank < 2; ++rank) {
        streams[rank] = gpus.make_stream(rank);
        gpu.make_comm(&comms[rank], 2, &id, rank, false);
        void* memory = nullptr;
        gpu.allocate(&memory, 64);
        data[rank] = static_cast<float*>(memory);
    }
    const auto settle = [&] {
        for (const nccl_comm c : comms)
            for (int code = 1; code != 0;) gpu.status(c, &code);
    };
    const auto expect_last = [&](std::string_view what) {
        const auto found = gpus.violations();
        ASSERT_FALSE(found.empty()) << what;
        EXPECT_NE(found.back().find(what), std::string::npos) << found.back();
    };
    settle();
    for (int rank = 0; rank < 2; ++rank)
        gpu.all_reduce(data[rank], data[rank], std::size_t{8} + static_cast<std::size_t>(rank), element_type::float32,
                       reduce_op::sum, comms[rank], streams[rank]);
    for (const gpu_stream s : streams) gpus.wait_for(s);
    expect_last("ranks differ");
    settle();
    gpu.all_gather(data[0], data[0], 64, comms[0], streams[0]);
    expect_last("not all memory of device 0");
    settle();
    gpu.send(data[0], 4, 1, comms[0], streams[0]);
    expect_last("outside of any group");
    gpu.group_start();
    gpu.group_end();
    gpu.abort(comms[0]);
    gpu.group_start();
    gpu.send(data[0], 4, 1, comms[0], streams[0]);
    gpu.group_end();
    expect_last("gone");
    gpu.abort(comms[1]);
    for (const gpu_stream s : streams) gpus.wait_for(s);
    EXPECT_NE(gpus.left(), "");
    for (float* each : data) gpu.release(each);
    EXPECT_EQ(gpus.left(), "");
}

}  // namespace terrace::detail::test
