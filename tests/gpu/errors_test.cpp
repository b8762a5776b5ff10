// Failures with device buffers: at creation, of calls on one rank, and of ranks that make no call. Stand-in.

#include <terrace/device.hpp>
#include <terrace/loopback.hpp>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/stand_in_buffers.hpp"

namespace terrace::detail::test {

TEST(gpu_errors, creation_fails_on_all_ranks_and_leaves_nothing) {
    const std::vector<std::pair<std::string, int>> functions{
        {"cudaGetDeviceCount", 2},        {"cudaSetDevice", 2},           {"ncclGetUniqueId", 1},
        {"ncclCommInitRankConfig", 3},    {"ncclCommSplit", 2},           {"ncclCommSplit", 7},
        {"cudaStreamCreateWithFlags", 3}, {"cudaEventCreateWithFlags", 5}};
    for (const auto& each : functions) {
        const std::string& function = each.first;
        gpu_stand_in gpus({});
        gpus.fail(function, each.second, 2);
        const auto thrown = run_on_stand_in(
            gpus, all_stages(machine({2, 2}), "nccl"),
            [&](communicator&) { ADD_FAILURE() << "created though " << function << " failed"; }, patient(0.3));
        for (const std::exception_ptr& t : thrown)
            EXPECT_TRUE(text_of(t).find("rank ") != std::string::npos &&
                        (text_of(t).starts_with("transport: ") || text_of(t).starts_with("timeout: ")))
                << function << ": " << text_of(t);
        for (const std::string& what : gpus.violations()) ADD_FAILURE() << function << ": " << what;
        EXPECT_EQ(gpus.left(), "") << function;
    }
}

TEST(gpu_errors, a_rank_without_that_device_is_named) {
    gpu_stand_in gpus({.devices = 3});
    const auto thrown = run_on_stand_in(
        gpus, all_stages(machine({2, 2}), "ring"), [](communicator&) {}, patient());
    for (const std::exception_ptr& t : thrown)
        EXPECT_NE(text_of(t).find("rank 3: device 3 of 3; give each rank one of 0 to 2"), std::string::npos)
            << text_of(t);
}

// If any function fails in a call on one rank, this rank reports the cause. The others fail, too; nothing hangs, and
// all resources are released.
TEST(gpu_errors, a_failure_of_one_rank_ends_the_calls_of_all) {
    const std::vector<std::pair<std::string, const char*>> functions{{"ncclSend", "ring"},
                                                                     {"ncclRecv", "direct"},
                                                                     {"ncclGroupStart", "ring"},
                                                                     {"ncclGroupEnd", "halving"},
                                                                     {"ncclAllReduce", "nccl"},
                                                                     {"ncclReduceScatter", "nccl"},
                                                                     {"ncclAllGather", "nccl"},
                                                                     {"ncclCommGetAsyncError", "ring"},
                                                                     {"cudaEventRecord", "nccl"},
                                                                     {"cudaStreamWaitEvent", "ring"},
                                                                     {"combine", "direct"},
                                                                     {"cudaMalloc", "direct"},
                                                                     {"cudaStreamIsCapturing", "ring"}};
    for (const auto& each : functions) {
        const std::string& function = each.first;
        gpu_stand_in gpus({});
        const auto thrown = fail_amid_calls(gpus, all_stages(machine({2, 2}), each.second, 2, 1024), function,
                                            function == "cudaMalloc" ? 2 : 5);
        int failed = 0;
        for (const std::exception_ptr& t : thrown) {
            const std::string why = text_of(t);
            EXPECT_TRUE(why.starts_with("transport: ") || why.starts_with("timeout: ")) << function << ": " << why;
            failed += why.find("injected") != std::string::npos || why.find("out of memory") != std::string::npos;
        }
        EXPECT_EQ(failed, 1) << function;
        for (const std::string& what : gpus.violations()) ADD_FAILURE() << function << ": " << what;
        EXPECT_EQ(gpus.left(), "") << function;
    }
}

// The call returns at once, since the stream waits and not the rank. After the timeout the watchdog ends the stream.
TEST(gpu_errors, a_rank_that_does_not_come_is_an_error_after_the_timeout) {
    for (const char* algorithm : {"nccl", "ring"}) {
        gpu_stand_in gpus({.remote_errors = false});
        std::atomic<int> through{0};
        options o = patient(0.3);
        o.check = options::checking::off;
        const auto thrown = run_on_stand_in(
            gpus, all_stages(machine({2, 2}), algorithm),
            [&](communicator& comm) {
                allreduce_once(gpus, comm, 256);
                device_buffer data(gpus, 256);
                if (comm.rank() != 1) {
                    nccl::allreduce(comm, data.span(), reduce_op::sum, gpus.make_stream(comm.rank()));
                    try {
                        nccl::synchronize(comm);
                        ADD_FAILURE() << "through";
                    } catch (const timeout_error& e) {
                        // Rank 0 waits in its node, the others between nodes.
                        const std::string_view where = comm.rank() == 0   ? "chunk 0 waits for rank 1; "
                                                       : comm.rank() == 2 ? "chunk 0 waits for rank 0; "
                                                                          : "chunk 0 waits for rank 1; ";
                        EXPECT_NE(std::string(e.what()).find("timed out after 0.3 s (options::timeout), waiting for "),
                                  std::string::npos)
                            << e.what();
                        EXPECT_NE(std::string(e.what()).find(", step "), std::string::npos) << e.what();
                        EXPECT_NE(std::string(e.what()).find(where), std::string::npos)
                            << comm.rank() << ": " << e.what();
                        EXPECT_EQ(std::string(e.what()).find("stage 1 up") == std::string::npos, comm.rank() == 0)
                            << e.what();
                    }
                    EXPECT_THROW(nccl::allreduce(comm, data.span(), reduce_op::sum, nullptr),
                                 usage_error);  // broken
                }
                ++through;
                while (through < comm.size()) std::this_thread::yield();
            },
            o, false);
        expect_well(gpus, thrown);
    }
}

// abort() ends the stream of a call that the other ranks do not make, and the work behind it in the caller's stream.
TEST(gpu_errors, abort_ends_the_calls_of_a_rank_by_itself) {
    gpu_stand_in gpus({.remote_errors = false});
    std::atomic<int> through{0};
    options o = patient();
    o.check = options::checking::off;
    const auto thrown = run_on_stand_in(
        gpus, all_stages(machine({2, 2}), "nccl"),
        [&](communicator& comm) {
            allreduce_once(gpus, comm, 256);
            device_buffer data(gpus, 256);
            const gpu_stream stream = gpus.make_stream(comm.rank());
            if (comm.rank() != 1) {
                nccl::allreduce(comm, data.span(), reduce_op::sum, stream);
                comm.abort();
                gpus.wait_for(stream);
                EXPECT_THROW(nccl::synchronize(comm), error);
            }
            ++through;
            while (through < comm.size()) std::this_thread::yield();
            comm.abort();
        },
        o, false);
    expect_well(gpus, thrown);
}

}  // namespace terrace::detail::test
