// Device buffers on a real GPU, under mpirun: ranks may share one, each as a host of its own. Skipped where there is none.

#include <cstdlib>
#include <string>
#include <vector>

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <nccl.h>

#include <terrace/nccl.hpp>

#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::test {

namespace {

void check(cudaError_t code, const char* what) {
    if (code != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(code));
}
void check(ncclResult_t code, const char* what) {
    if (code != ncclSuccess) throw std::runtime_error(std::string(what) + ": " + ncclGetErrorString(code));
}
#define CHECK(call) check(call, #call)

class device_floats {
public:
    explicit device_floats(std::size_t count) : count_(count) { CHECK(cudaMalloc(&data_, count * sizeof(float))); }
    device_floats(const device_floats&) = delete;
    device_floats& operator=(const device_floats&) = delete;
    ~device_floats() { cudaFree(data_); }
    float* data() const noexcept { return static_cast<float*>(data_); }
    device_span<float> span() const noexcept { return {data(), count_}; }
    void set(const std::vector<float>& from) const {
        CHECK(cudaMemcpy(data_, from.data(), count_ * sizeof(float), cudaMemcpyHostToDevice));
    }
    std::vector<float> get() const {
        std::vector<float> to(count_);
        CHECK(cudaMemcpy(to.data(), data_, count_ * sizeof(float), cudaMemcpyDeviceToHost));
        return to;
    }

private:
    std::size_t count_;
    void* data_ = nullptr;
};

// Small whole numbers: every order of additions gives the same bits.
std::vector<float> input(int rank, std::size_t count, int turn = 0) {
    std::vector<float> data(count);
    for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>((static_cast<std::size_t>(rank * 13 + turn) + i * 7) % 61) - 30;
    return data;
}

std::vector<hierarchy> machines(int ranks) {
    std::vector<hierarchy> all{machine_of(tree::uniform(std::vector{ranks}))};
    if (ranks % 2 == 0 && ranks > 2) all.push_back(machine_of(tree::uniform(std::vector{ranks / 2, 2})));
    if (ranks == 8) all.push_back(machine_of(tree::uniform(std::vector{2, 2, 2})));
    if (ranks > 2) all.push_back(machine_of(tree({{ranks - 1, 1}, {2}})));
    return all;
}

plan plan_with(const hierarchy& m, const char* algorithm) {
    std::vector<stage> stages;
    for (int l = 0; l < m.depth(); ++l) stages.push_back({{l}, m.shape.uniform_size(l).value_or(0), mode::scatter, algorithm});
    return plan_of(m, stages, 3, 1 << 20);
}

class on_gpu : public testing::Test {
protected:
    void SetUp() override {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
        int devices = 0;
        if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "there is no GPU";
        device_ = rank_ % devices;
        if (devices < ranks_) {  // else NCCL refuses two ranks of one device
            setenv("NCCL_HOSTID", fmt::format("rank-{}", rank_).c_str(), 1);
            setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
        }
        CHECK(cudaSetDevice(device_));
        CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    }
    void TearDown() override {
        if (stream_ != nullptr) cudaStreamDestroy(stream_);
    }

    communicator create(const plan& p) const {
        options o;
        o.place = options::placement::anywhere;
        o.timeout = std::chrono::seconds(60);
        o.gpu_module = TERRACE_TEST_GPU_MODULE;
        return nccl::create(MPI_COMM_WORLD, p, device_, o);
    }

    // By NCCL itself.
    std::vector<float> expected(std::size_t count, int turn = 0) const {
        ncclUniqueId id;
        if (rank_ == 0) CHECK(ncclGetUniqueId(&id));
        MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
        ncclComm_t comm = nullptr;
        CHECK(ncclCommInitRank(&comm, ranks_, id, rank_));
        device_floats data(count);
        data.set(input(rank_, count, turn));
        CHECK(ncclAllReduce(data.data(), data.data(), count, ncclFloat, ncclSum, comm, stream_));
        CHECK(cudaStreamSynchronize(stream_));
        CHECK(ncclCommDestroy(comm));
        return data.get();
    }

    int rank_ = 0, ranks_ = 1, device_ = 0;
    cudaStream_t stream_ = nullptr;
};

}  // namespace

TEST_F(on_gpu, allreduces_are_those_of_nccl) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{1'000'003}}) {
        const std::vector<float> truth = expected(count);
        for (const hierarchy& m : machines(ranks_))
            for (const char* algorithm : {"ring", "halving", "direct", "native"}) {
                communicator comm = create(plan_with(m, algorithm));
                device_floats data(count);
                for (int turn = 0; turn < 2; ++turn) {
                    data.set(input(rank_, count));
                    nccl::allreduce(comm, data.span(), reduce_op::sum, stream_);
                    CHECK(cudaStreamSynchronize(stream_));
                    EXPECT_EQ(data.get(), truth) << algorithm << ", " << text(m.shape) << ", " << count;
                }
            }
    }
}

TEST_F(on_gpu, captured_calls_run_again) {
    constexpr std::size_t count = 100'003;
    communicator comm = create(plan_with(machines(ranks_).back(), "native"));
    device_floats data(count);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    nccl::allreduce(comm, data.span(), reduce_op::sum, stream_);
    CHECK(cudaStreamEndCapture(stream_, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    for (int turn = 0; turn < 3; ++turn) {
        const std::vector<float> truth = expected(count, turn);
        data.set(input(rank_, count, turn));
        CHECK(cudaGraphLaunch(ready, stream_));
        CHECK(cudaStreamSynchronize(stream_));
        EXPECT_EQ(data.get(), truth) << turn;
    }
    CHECK(cudaGraphExecDestroy(ready));
    CHECK(cudaGraphDestroy(graph));
}

TEST_F(on_gpu, host_buffers_go_through_the_same_communicator) {
    communicator comm = create(plan_with(machines(ranks_).front(), "ring"));
    EXPECT_EQ(wrong_elements<float>(comm, 12345, 3), 0);
}

}  // namespace terrace::test
