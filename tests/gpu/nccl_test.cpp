// Device buffers on real GPUs, under mpirun, any number of ranks, on one GPU or more: plans against NCCL's own
// allreduce. Skipped where there is none.

#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <nccl.h>

#include <terrace/nccl.hpp>

#include "gpu/memory.hpp"
#include "support/mpi_ranks.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test {

namespace {

hierarchy joined_by_nccl(tree shape) {
    hierarchy m = machine_of(std::move(shape));
    for (level& l : m.levels) l.medium = fabric::nvlink;
    return m;
}

// 2 x 2, 2 x 4, 2 x 2 x 2 and all else that these ranks can be; a level that is not even where there is one.
std::vector<hierarchy> machines() {
    std::vector<hierarchy> all{joined_by_nccl(tree::uniform(std::vector<int>{ranks()}))};
    for (const std::vector<int>& sizes : std::vector<std::vector<int>>{{2, 2}, {2, 4}, {4, 2}, {2, 2, 2}})
        if (tree::uniform(sizes).ranks() == ranks()) all.push_back(joined_by_nccl(tree::uniform(sizes)));
    for (hierarchy& uneven : uneven_machines())
        if (uneven.shape.ranks() == ranks()) all.push_back(joined_by_nccl(uneven.shape));
    return all;
}

std::vector<stage> stages_of(const hierarchy& m, std::string_view by) {
    std::vector<stage> all;
    for (int l = 0; l < m.depth(); ++l)
        all.push_back(run_by({{l}, m.shape.uniform_size(l).value_or(0), mode::scatter}, by));
    return all;
}

// NCCL by itself on the same device.
class nccl_world {
public:
    nccl_world() {
        ncclUniqueId id;
        if (rank() == 0) ncclGetUniqueId(&id);
        MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
        if (const ncclResult_t code = ncclCommInitRank(&comm_, ranks(), id, rank()); code != ncclSuccess)
            throw std::runtime_error(std::string("ncclCommInitRank: ") + ncclGetErrorString(code));
    }
    ~nccl_world() { ncclCommDestroy(comm_); }
    ncclComm_t get() const noexcept { return comm_; }

private:
    ncclComm_t comm_ = nullptr;
};

template <class T>
constexpr ncclDataType_t nccl_type{};
#define TERRACE_ELEMENT_TYPE(name, element, accumulator, mpi, nccl) \
    template <>                                                     \
    constexpr ncclDataType_t nccl_type<element> = nccl;
#include <terrace/element_types.def>

ncclRedOp_t nccl_op(reduce_op op) {
    constexpr ncclRedOp_t ops[] = {
#define TERRACE_REDUCE_OP(name, kinds, mpi, nccl) nccl,
#include <terrace/reduce_ops.def>
    };
    return ops[static_cast<std::size_t>(op)];
}

// Small enough that any order of up to 16 of them has the same result in every type.
template <class T>
T input(std::size_t i, int of_rank, reduce_op op) {
    const std::size_t n = i + 3 * static_cast<std::size_t>(of_rank);
    const int value = op == reduce_op::prod ? 1 + static_cast<int>(n % 5 == 0) : static_cast<int>(n % 4) - 1;
    if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(value);
    else return T(static_cast<float>(value));
}

template <class T>
std::vector<T> inputs(std::size_t count, int of_rank, reduce_op op = reduce_op::sum) {
    std::vector<T> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = input<T>(i, of_rank, op);
    return values;
}

std::vector<float> summed(std::size_t count) {
    std::vector<float> sums(count);
    for (int r = 0; r < ranks(); ++r)
        for (std::size_t i = 0; i < count; ++i) sums[i] += input<float>(i, r, reduce_op::sum);
    return sums;
}

class on_gpu : public testing::Test {
protected:
    void SetUp() override {
        if (const std::string why = no_gpu(); !why.empty()) GTEST_SKIP() << why;
        int devices = 0;
        CHECK(cudaGetDeviceCount(&devices));
        device_ = rank() % devices;
        if (devices < ranks()) {  // each a host of its own, else NCCL refuses two ranks of one device
            setenv("NCCL_HOSTID", fmt::format("rank-{}", rank()).c_str(), 1);
            setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
            setenv("NCCL_SOCKET_IFNAME", "lo", 0);
        }
        CHECK(cudaSetDevice(device_));
        CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    }
    void TearDown() override {
        if (stream_ != nullptr) cudaStreamDestroy(stream_);
    }

    communicator create(const plan& p) {
        options o;
        o.place = options::placement::anywhere;
        o.timeout = std::chrono::seconds(60);
        o.gpu_module = TERRACE_TEST_GPU_MODULE;
        return nccl::create(MPI_COMM_WORLD, p, device_, o);
    }

    template <class T>
    void expect_as_nccl(communicator& comm, const nccl_world& peer, std::size_t count, reduce_op op) {
        const device_vector<T> from(count, stream_), ours(count, stream_), theirs(count, stream_);
        from.put(inputs<T>(count, rank(), op));
        ours.fill(0xb5), theirs.fill(0xb5);
        nccl::allreduce(comm, device_span<const T>(from.data(), count), device_span<T>(ours.data(), count), op,
                        stream_);
        const std::vector<T> is = ours.get();
        ASSERT_EQ(ncclAllReduce(from.data(), theirs.data(), count, nccl_type<T>, nccl_op(op), peer.get(), stream_),
                  ncclSuccess);
        const std::vector<T> should = theirs.get();
        ASSERT_EQ(std::memcmp(is.data(), should.data(), count * sizeof(T)), 0)
            << to_string(element_type_of<T>) << ' ' << to_string(op) << " of " << count;
    }

    int device_ = 0;
    cudaStream_t stream_ = nullptr;
};

}  // namespace

// Making a communicator takes NCCL seconds where ranks share a GPU, so not every algorithm meets every machine.
TEST_F(on_gpu, have_what_nccls_allreduce_has) {
    const nccl_world peer;
    const std::vector<hierarchy> all = machines();
    for (const hierarchy& m : all)
        for (const char* algorithm : {"nccl", "ring", "direct", "halving"}) {
            const bool last = &m == &all.back();
            if (!last && algorithm != std::string_view("nccl") && algorithm != std::string_view("ring")) continue;
            SCOPED_TRACE(fmt::format("{} {}", text(m.shape), algorithm));
            communicator comm = create(plan_of(m, stages_of(m, algorithm), 2, 4096));
            for (const std::size_t count :
                 {std::size_t{1}, static_cast<std::size_t>(2 * ranks() + 3), std::size_t{50'021}})
                for (const reduce_op op : {reduce_op::sum, reduce_op::prod, reduce_op::min, reduce_op::max}) {
                    expect_as_nccl<float>(comm, peer, count, op);
                    expect_as_nccl<bfloat16>(comm, peer, count, op);
                    expect_as_nccl<std::int8_t>(comm, peer, count, op);
                    if (last) {
                        expect_as_nccl<float16>(comm, peer, count, op);
                        expect_as_nccl<double>(comm, peer, count, op);
                        expect_as_nccl<std::uint32_t>(comm, peer, count, op);
                        expect_as_nccl<std::int64_t>(comm, peer, count, op);
                    }
                    if (HasFatalFailure()) return;
                }
        }
}

TEST_F(on_gpu, run_every_collective) {
    const auto p = static_cast<std::size_t>(ranks()), me = static_cast<std::size_t>(rank());
    constexpr std::size_t block = 10'007;
    for (const hierarchy& m : machines()) {
        SCOPED_TRACE(text(m.shape));
        communicator comm = create(plan_of(m, stages_of(m, "direct"), 2, 4096));
        const device_vector<float> all(p * block, stream_), one(block, stream_);
        all.put(inputs<float>(p * block, rank()));
        nccl::reduce_scatter(comm, device_span<const float>(all.data(), p * block),
                             device_span<float>(one.data(), block), reduce_op::sum, stream_);
        const std::vector<float> sums = summed(p * block);
        ASSERT_TRUE(std::ranges::equal(one.get(), std::span(sums).subspan(me * block, block)));
        nccl::allgather(comm, device_span<const float>(one.data(), block), device_span<float>(all.data(), p * block),
                        stream_);
        ASSERT_EQ(all.get(), sums);
        const int root = ranks() - 1;
        one.put(inputs<float>(block, rank()));
        nccl::broadcast(comm, device_span<float>(one.data(), block), root, stream_);
        ASSERT_EQ(one.get(), inputs<float>(block, root));
        one.put(inputs<float>(block, rank()));
        const device_vector<float> result(block, stream_);
        result.fill(0);
        nccl::reduce(comm, device_span<const float>(one.data(), block), device_span<float>(result.data(), block), root,
                     reduce_op::sum, stream_);
        if (rank() == root) {
            ASSERT_EQ(result.get(), summed(block));
        }
        nccl::synchronize(comm);
    }
}

// Captured once, replayed with other data: no call of Terrace's in between.
TEST_F(on_gpu, graphs_replay) {
    constexpr std::size_t count = 50'001;
    const hierarchy m = machines().back();
    communicator comm = create(plan_of(m, stages_of(m, "nccl"), 2, 4096));
    const device_vector<float> from(count, stream_), to(count, stream_);
    const auto call = [&] {
        nccl::allreduce(comm, device_span<const float>(from.data(), count), device_span<float>(to.data(), count),
                        reduce_op::sum, stream_);
    };
    from.put(inputs<float>(count, rank()));
    call();  // makes what the call takes
    ASSERT_EQ(to.get(), summed(count));
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    call();
    CHECK(cudaStreamEndCapture(stream_, &graph));
    CHECK(cudaGraphInstantiate(&replay, graph, 0));
    for (int times = 2; times < 12; ++times) {
        std::vector<float> values = inputs<float>(count, rank()), expected = summed(count);
        for (std::size_t i = 0; i < count; ++i) {
            values[i] *= static_cast<float>(times);
            expected[i] *= static_cast<float>(times);
        }
        from.put(values);
        to.fill(0xb5);
        CHECK(cudaGraphLaunch(replay, stream_));
        ASSERT_EQ(to.get(), expected) << "replay " << times;
    }
    CHECK(cudaGraphExecDestroy(replay));
    CHECK(cudaGraphDestroy(graph));
}

TEST_F(on_gpu, host_buffers_go_through_the_same_communicator) {
    communicator comm = create(plan_of(machines().front(), stages_of(machines().front(), "ring")));
    EXPECT_EQ(wrong_elements<float>(comm, 12345, 3), 0);
}

}  // namespace terrace::detail::test
