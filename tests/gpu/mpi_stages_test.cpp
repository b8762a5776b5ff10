// Device buffers with plans whose stages, some or all, go over MPI. Runs on the stand-in for CUDA and NCCL, with
// messages between threads for MPI's, and shows nothing about a GPU.

#include <terrace/device.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "api/core.hpp"
#include "gpu/stand_in_buffers.hpp"

namespace terrace::detail::test {

namespace {

// Returns a plan with NCCL inside and MPI for the outermost stage, or with MPI for all stages.
plan mixed(const hierarchy& m, const char* inside, const char* above, bool all = false, mode how = mode::scatter) {
    std::vector<stage> stages = stages_of(m, how, inside);
    stages.back().algorithm = above;
    stages.back().provider = provider::mpi;
    if (all)
        for (stage& s : stages) s.provider = provider::mpi;
    return plan_of(m, stages, 3, 4096);
}

hierarchy uneven_above() {
    hierarchy m = machine_of(tree({{3, 1, 2}, {2, 1}, {2}}));
    m.levels[1].medium = m.levels[2].medium = fabric::ethernet;
    return m;
}

void allreduce_turns(gpu_stand_in& gpus, communicator& comm, std::size_t count, int turns) {
    const gpu_runtime& gpu = gpus.runtime();
    device_buffer data(gpus, count), out(gpus, count * static_cast<std::size_t>(turns)),
        in(gpus, count * static_cast<std::size_t>(turns));
    const gpu_stream stream = gpus.make_stream(comm.rank());
    const auto part = [&](device_buffer& of, int turn) { return of.data() + count * static_cast<std::size_t>(turn); };
    for (int turn = 0; turn < turns; ++turn) fill(part(in, turn), comm.rank(), count, turn);
    for (int turn = 0; turn < turns; ++turn) {
        gpu.copy(data.data(), part(in, turn), count * sizeof(float), stream);
        nccl::allreduce(comm, data.span(), reduce_op::sum, stream);
        gpu.copy(part(out, turn), data.data(), count * sizeof(float), stream);
    }
    gpus.wait_for(stream);
    for (int turn = 0; turn < turns; ++turn)
        EXPECT_EQ(wrong(part(out, turn), comm.size(), count, turn), 0) << "turn " << turn;
}

}  // namespace

// The caller enqueues calls between its own work in a stream. Stages over MPI progress before the caller waits.
TEST(mpi_stages, run_between_what_is_before_and_behind_them) {
    for (const hierarchy& m : {machine({2, 2}), uneven(), uneven_above()})
        for (const auto& [inside, above] :
             {std::pair("nccl", "ring"), std::pair("ring", "direct"), std::pair("direct", "halving")})
            for (const bool direct : {false, true}) {
                gpu_stand_in gpus({.seed = 7});
                const auto thrown = run_on_stand_in(
                    gpus, mixed(m, inside, above),
                    [&](communicator& comm) {
                        allreduce_turns(gpus, comm, 5003, 3);
                        const std::string said = core_of(comm).transports();
                        EXPECT_NE(said.find(direct ? "mpi from and to devices" : "mpi through host memory"),
                                  std::string::npos)
                            << said;
                    },
                    patient(), true, direct);
                expect_well(gpus, thrown);
            }
}

TEST(mpi_stages, may_be_all) {
    for (const hierarchy& m : {machine({3}), machine({2, 2}), uneven()})
        for (const bool direct : {false, true}) {
            gpu_stand_in gpus({.seed = 2});
            const auto thrown = run_on_stand_in(
                gpus, mixed(m, "ring", "direct", true),
                [&](communicator& comm) { allreduce_turns(gpus, comm, 3001, 2); }, patient(), true, direct);
            expect_well(gpus, thrown);
            auto calls = gpus.calls();
            EXPECT_EQ(calls["ncclSend"] + calls["ncclReduceScatter"], 0);
            EXPECT_GT(calls["combine"], 0);
        }
}

// Messages longer than a segment, and than the segments that may be in flight.
TEST(mpi_stages, cut_long_messages) {
    const hierarchy m = machine({2, 2});
    std::vector<stage> stages = stages_of(m, mode::scatter, "direct");
    stages.back().provider = provider::mpi;
    gpu_stand_in gpus({});
    const auto thrown = run_on_stand_in(
        gpus, plan_of(m, stages), [&](communicator& comm) { allreduce_turns(gpus, comm, 1'000'003, 1); }, patient());
    expect_well(gpus, thrown);
}

TEST(mpi_stages, every_collective) {
    const hierarchy m = machine({2, 2});
    const plan both = with_roots(mixed(m, "nccl", "ring"), mixed(m, "nccl", "tree", false, mode::root));
    for (const bool direct : {false, true}) {
        gpu_stand_in gpus({});
        const auto thrown = run_on_stand_in(
            gpus, both, [&](communicator& comm) { run_others(gpus, comm, 301); }, patient(), true, direct);
        expect_well(gpus, thrown);
    }
}

// Calls of host and device buffers overlap. After the first call of a shape nothing is allocated.
TEST(mpi_stages, share_a_communicator_with_host_buffers) {
    gpu_stand_in gpus({});
    const auto made = [&] {
        std::map<std::string, int> calls = gpus.calls();
        return calls["cudaMalloc"] + calls["cudaStreamCreateWithFlags"];
    };
    std::atomic<int> before{0}, through{0};
    const auto thrown = run_on_stand_in(
        gpus, mixed(machine({2, 2}), "nccl", "ring"),
        [&](communicator& comm) {
            constexpr std::size_t count = 2000;
            device_buffer there(gpus, count);
            std::vector<float> here(count);
            for (int turn = 0; turn < 4; ++turn) {
                allreduce_both(comm, there, here, turn);
                if (turn == 0 && ++through == comm.size()) before = made();
                while (through < comm.size()) std::this_thread::yield();
            }
        },
        patient());
    EXPECT_EQ(made(), before);
    expect_well(gpus, thrown);
}

TEST(mpi_stages, are_refused_by_a_graph_on_all_ranks) {
    gpu_stand_in gpus({});
    const auto thrown = run_on_stand_in(
        gpus, mixed(machine({2, 2}), "nccl", "ring"),
        [&](communicator& comm) {
            device_buffer data(gpus, 500);
            fill(data.data(), comm.rank(), 500);
            const gpu_stream stream = gpus.make_stream(comm.rank());
            gpus.begin_capture(stream);
            try {
                nccl::allreduce(comm, data.span(), reduce_op::sum, stream);
                ADD_FAILURE() << "captured";
            } catch (const usage_error& e) {
                EXPECT_NE(std::string_view(e.what()).find("stage 2 of its plan"), std::string_view::npos) << e.what();
                EXPECT_NE(std::string_view(e.what()).find("outside of the capture"), std::string_view::npos)
                    << e.what();
            }
            gpus.end_capture(stream);
            nccl::allreduce(comm, data.span(), reduce_op::sum, stream);  // still works
            nccl::synchronize(comm);
            EXPECT_EQ(wrong(data.data(), comm.size(), 500), 0);
        },
        patient());
    expect_well(gpus, thrown);
}

// One rank makes no call. The others' calls time out, and their errors name the stage and the awaited rank.
TEST(mpi_stages, that_nobody_answers_time_out_by_name) {
    for (const bool direct : {false, true}) {
        gpu_stand_in gpus({.remote_errors = false});
        std::atomic<int> through{0};
        options o = patient(0.3);
        o.check = options::checking::off;
        const auto thrown = run_on_stand_in(
            gpus, mixed(machine({1, 3}), "ring", "ring"),
            [&](communicator& comm) {
                device_buffer data(gpus, 256);
                const gpu_stream stream = gpus.make_stream(comm.rank());
                if (comm.rank() != 1) {
                    nccl::allreduce(comm, data.span(), reduce_op::sum, stream);
                    try {
                        nccl::synchronize(comm);
                        ADD_FAILURE() << "through";
                    } catch (const timeout_error& e) {
                        const std::string_view said = e.what();
                        EXPECT_NE(said.find("scatter ring over mpi waits for rank "), std::string_view::npos) << said;
                        if (comm.rank() == 2) {
                            EXPECT_NE(said.find("waits for rank 1"), std::string_view::npos) << said;
                        }
                    }
                    gpus.wait_for(stream);  // the stream is no longer blocked
                    EXPECT_THROW(nccl::allreduce(comm, data.span(), reduce_op::sum, nullptr), usage_error);
                }
                ++through;
                while (through < comm.size()) std::this_thread::yield();
            },
            o, false, direct);
        expect_well(gpus, thrown);
    }
}

TEST(mpi_stages, failures_end_the_calls_of_all) {
    for (const char* function :
         {"cuStreamWriteValue32", "cuStreamWaitValue32", "cudaMemcpyAsync", "ncclAllGather", "ncclReduceScatter"}) {
        gpu_stand_in gpus({});
        const auto thrown = fail_amid_calls(gpus, mixed(machine({2, 2}), "nccl", "ring"), function, 5);
        for (const std::exception_ptr& t : thrown) {
            const std::string why = text_of(t);
            EXPECT_TRUE(why.starts_with("transport: ") || why.starts_with("timeout: ")) << function << ": " << why;
        }
        for (const std::string& what : gpus.violations()) ADD_FAILURE() << function << ": " << what;
        EXPECT_EQ(gpus.left(), "") << function;
    }
}

TEST(mpi_stages, are_refused_where_streams_cannot_wait_for_the_host) {
    gpu_stand_in gpus({});
    gpus.fail("cuStreamWaitValue32", 2, 801);
    const auto thrown = run_on_stand_in(
        gpus, mixed(machine({2, 2}), "nccl", "ring"), [](communicator&) { ADD_FAILURE() << "created"; }, patient(1));
    for (const std::exception_ptr& t : thrown)
        EXPECT_TRUE(text_of(t).starts_with("transport: cuda cuStreamWaitValue32: ")) << text_of(t);
    EXPECT_EQ(gpus.left(), "");
}

// An error of the messages names the stage and the awaited ranks; streams go on, and all resources are released.
TEST(mpi_stages, an_error_of_mpi_names_stage_and_ranks) {
    gpu_stand_in gpus({.remote_errors = false});
    std::atomic<int> waiting{0};
    options o = patient(20);
    o.check = options::checking::off;
    const auto thrown = run_on_stand_in(
        gpus, mixed(machine({1, 2}), "ring", "ring"),
        [&](communicator& comm) {
            device_buffer data(gpus, 256);
            const gpu_stream stream = gpus.make_stream(comm.rank());
            if (comm.rank() == 1) {
                while (waiting == 0) std::this_thread::yield();
                std::this_thread::sleep_for(std::chrono::milliseconds(100));
                throw std::runtime_error("gone");  // makes messages fail
            }
            nccl::allreduce(comm, data.span(), reduce_op::sum, stream);
            ++waiting;
            nccl::synchronize(comm);
        },
        o);
    const std::string why = text_of(thrown[0]);
    EXPECT_NE(why.find("transport: loopback poll"), std::string::npos) << why;
    EXPECT_NE(why.find("ring over mpi waits for rank 1"), std::string::npos) << why;
    EXPECT_EQ(text_of(thrown[1]), "other: gone");
    for (const std::string& what : gpus.violations()) ADD_FAILURE() << what;
    EXPECT_EQ(gpus.left(), "");
}

}  // namespace terrace::detail::test
