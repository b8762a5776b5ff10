// Device buffers under mpirun, with any number of ranks and devices: plans are compared with NCCL's allreduce. Runs on
// GPUs, or on the stand-in if TERRACE_GPU_MODULE names it. Skipped without a device.

#include <cstdlib>
#include <cstring>
#include <optional>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <terrace/nccl.hpp>

#include "base/element_types.hpp"
#include "gpu/device.hpp"
#include "kernels/arithmetic.hpp"
#include "kernels/reduce.hpp"
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

// Returns machines with this number of ranks: flat, 2 x 2, 2 x 4, 4 x 2, 2 x 2 x 2, and uneven ones.
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

// Returns a plan with every stage over MPI, which a thread of Terrace calls, too.
plan all_over_mpi(const hierarchy& m) {
    std::vector<stage> stages = stages_of(m, "ring");
    for (stage& s : stages) s.provider = provider::mpi;
    return plan_of(m, stages, 2, 4096);
}

bool mpi_takes_threads() {
    int provided = 0;
    MPI_Query_thread(&provided);
    return provided == MPI_THREAD_MULTIPLE;
}

// NCCL without Terrace, on the same device.
class nccl_world {
public:
    explicit nccl_world(const gpu_runtime& gpu) : gpu_(gpu) {
        nccl_id id{};
        if (rank() == 0) check(gpu_.make_id(&id));
        MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
        check(gpu_.make_comm(&comm_, ranks(), &id, rank(), true));
    }
    nccl_world(const nccl_world&) = delete;
    nccl_world& operator=(const nccl_world&) = delete;
    ~nccl_world() { gpu_.drop_comm(comm_); }

    void allreduce(const void* from, void* to, std::size_t count, element_type type, reduce_op op, gpu_stream s) const {
        check(gpu_.all_reduce(from, to, count, type, op, comm_, s));
    }

private:
    void check(int code) const {
        if (code != 0) throw std::runtime_error(std::string("NCCL: ") + gpu_.nccl_error(code));
    }

    const gpu_runtime& gpu_;
    nccl_comm comm_ = nullptr;
};

// Returns values so small that every order of up to 16 of them gives the same result in every type.
template <class T>
T input(std::size_t i, int of_rank, reduce_op op) {
    const std::size_t n = i + 3 * static_cast<std::size_t>(of_rank);
    const int value = op == reduce_op::prod ? 1 + static_cast<int>(n % 5 == 0) : static_cast<int>(n % 4) - 1;
    if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(value);
    else if constexpr (is_complex<T>)  // no product has a part 0, whose sign would depend on the order
        return {static_cast<part_t<T>>(2 * value), static_cast<part_t<T>>(value)};
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
        const gpu_module module = module_of_tests();
        if (const std::string why = no_device(module); !why.empty()) GTEST_SKIP() << why;
        int devices = 0;
        module.runtime->device_count(&devices);
        shared_ = devices < ranks();
        if (shared_) {
            setenv("NCCL_HOSTID", fmt::format("rank-{}", rank()).c_str(), 1);
            setenv("NCCL_SOCKET_IFNAME", "lo", 0);
        }
        device_.emplace(*module.runtime, rank() % devices);
    }

    communicator create(const plan& p) {
        options o;
        o.place = options::placement::anywhere;
        o.timeout = std::chrono::seconds(60);
        o.gpu_module = module_of_tests().path;
        return nccl::create(MPI_COMM_WORLD, p, device_->number(), o);
    }

    template <class T>
    device_vector<T> room(std::size_t count) const {
        return {*device_, count};
    }

    template <class T>
    void expect_as_nccl(communicator& comm, const nccl_world& peer, std::size_t count, reduce_op op) {
        const auto from = room<T>(count), ours = room<T>(count), theirs = room<T>(count);
        from.put(inputs<T>(count, rank(), op));
        ours.fill(0xb5), theirs.fill(0xb5);
        nccl::allreduce(comm, device_span<const T>(from.data(), count), device_span<T>(ours.data(), count), op,
                        device_->stream());
        const std::vector<T> is = ours.get();
        peer.allreduce(from.data(), theirs.data(), count, element_type_of<T>, op, device_->stream());
        const std::vector<T> should = theirs.get();
        ASSERT_EQ(std::memcmp(is.data(), should.data(), count * sizeof(T)), 0)
            << to_string(element_type_of<T>) << ' ' << to_string(op) << " of " << count;
    }

    // Compares a call in place with the host's kernel. bool is stored in bytes, since std::vector<bool> packs bits.
    template <class T>
    void expect_as_host(communicator& comm, std::size_t count, reduce_op op) {
        using stored = arithmetic::kernel_t<T>;
        std::vector<std::vector<stored>> all;
        std::vector<const void*> sources;
        for (int r = 0; r < ranks(); ++r) sources.push_back(all.emplace_back(inputs<stored>(count, r, op)).data());
        std::vector<stored> should(count);
        find_reduce(element_type_of<T>, op)(should.data(), sources.data(), ranks(), static_cast<std::int64_t>(count),
                                            op == reduce_op::avg ? ranks() : 1);
        const auto data = room<stored>(count);
        data.put(all[static_cast<std::size_t>(rank())]);
        nccl::allreduce(comm, device_span<T>(reinterpret_cast<T*>(data.data()), count), op, device_->stream());
        const std::vector<stored> is = data.get();
        ASSERT_EQ(std::memcmp(is.data(), should.data(), count * sizeof(T)), 0)
            << to_string(element_type_of<T>) << ' ' << to_string(op);
    }

    void expect_every_collective(const plan& by) {
        const auto p = static_cast<std::size_t>(ranks()), me = static_cast<std::size_t>(rank());
        constexpr std::size_t block = 10'007;
        communicator comm = create(by);
        const auto all = room<float>(p * block), one = room<float>(block), result = room<float>(block);
        all.put(inputs<float>(p * block, rank()));
        nccl::reduce_scatter(comm, device_span<const float>(all.data(), p * block),
                             device_span<float>(one.data(), block), reduce_op::sum, device_->stream());
        const std::vector<float> sums = summed(p * block);
        ASSERT_TRUE(std::ranges::equal(one.get(), std::span(sums).subspan(me * block, block)));
        nccl::allgather(comm, device_span<const float>(one.data(), block), device_span<float>(all.data(), p * block),
                        device_->stream());
        ASSERT_EQ(all.get(), sums);
        const int root = ranks() - 1;
        one.put(inputs<float>(block, rank()));
        nccl::broadcast(comm, device_span<float>(one.data(), block), root, device_->stream());
        ASSERT_EQ(one.get(), inputs<float>(block, root));
        one.put(inputs<float>(block, rank()));
        result.fill(0);
        nccl::reduce(comm, device_span<const float>(one.data(), block), device_span<float>(result.data(), block), root,
                     reduce_op::sum, device_->stream());
        if (rank() == root) {
            ASSERT_EQ(result.get(), summed(block));
        }
        nccl::synchronize(comm);
    }

    bool shared_ = false;
    std::optional<device> device_;
};

}  // namespace

// If ranks share a GPU, NCCL needs seconds for a communicator, so not every algorithm runs on every machine.
TEST_F(on_gpu, have_what_nccls_allreduce_has) {
    const nccl_world peer(device_->gpu());
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
    for (const hierarchy& m : machines()) {
        SCOPED_TRACE(text(m.shape));
        expect_every_collective(plan_of(m, stages_of(m, "direct"), 2, 4096));
        if (mpi_takes_threads()) expect_every_collective(all_over_mpi(m));
    }
}

// No NCCL kernels run, so ranks that share a GPU are fast. Covers the types and operations that NCCL lacks, too.
TEST_F(on_gpu, have_the_hosts_results_of_every_type_and_operation_over_mpi) {
    if (!mpi_takes_threads()) GTEST_SKIP() << "MPI_THREAD_MULTIPLE is wanted (TERRACE_TEST_THREADS)";
    communicator comm = create(all_over_mpi(machines().back()));
    for (const element_type type : all_element_types)
        with_type(type, [&]<class T>(std::type_identity<T>) {
            for (const reduce_op op : all_reduce_ops)
                if (is_defined(op, type) && op != reduce_op::premul_sum) expect_as_host<T>(comm, 3'001, op);
        });
}

// A call is captured once and replayed with other data, after calls of more shapes than Terrace keeps programs for.
TEST_F(on_gpu, graphs_replay) {
    constexpr std::size_t count = 50'001;
    constexpr int shapes = 40;
    const hierarchy m = machines().back();
    communicator comm = create(plan_of(m, stages_of(m, "nccl"), 2, 4096));
    const auto from = room<float>(count), to = room<float>(count);
    const auto call = [&](std::size_t n) {
        nccl::allreduce(comm, device_span<const float>(from.data(), n), device_span<float>(to.data(), n),
                        reduce_op::sum, device_->stream());
    };
    from.put(inputs<float>(count, rank()));
    call(count);  // allocates
    ASSERT_EQ(to.get(), summed(count));
    gpu_graph graph = nullptr;
    device_->check(device_->gpu().begin_capture(device_->stream()));
    call(count);
    device_->check(device_->gpu().end_capture(device_->stream(), &graph));
    for (int shape = 1; shape <= shapes; ++shape) call(17 * static_cast<std::size_t>(shape));
    for (int times = 2; times < 12; ++times) {
        std::vector<float> values = inputs<float>(count, rank()), expected = summed(count);
        for (std::size_t i = 0; i < count; ++i) {
            values[i] *= static_cast<float>(times);
            expected[i] *= static_cast<float>(times);
        }
        from.put(values);
        to.fill(0xb5);
        device_->check(device_->gpu().launch(graph, device_->stream()));
        ASSERT_EQ(to.get(), expected) << "replay " << times;
    }
    device_->check(device_->gpu().drop_graph(graph));
}

TEST_F(on_gpu, parts_have_the_device) {
    constexpr std::size_t count = 5'001;
    communicator comm = create(plan_of(machines().front(), stages_of(machines().front(), "ring")));
    communicator part = std::move(*comm.split(rank() % 2));
    const auto data = room<float>(count);
    data.put(std::vector<float>(count, 1));
    nccl::allreduce(part, device_span<float>(data.data(), count), reduce_op::sum, device_->stream());
    ASSERT_EQ(data.get(), std::vector<float>(count, static_cast<float>(part.size())));
}

TEST_F(on_gpu, ranks_of_one_host_that_share_a_device_are_refused) {
    if (!shared_) GTEST_SKIP() << "there is a device for each rank";
    setenv("NCCL_HOSTID", "same", 1);
    try {
        create(plan_of(machines().front(), stages_of(machines().front(), "ring")));
        FAIL() << "created";
    } catch (const usage_error& e) {
        const std::string text = e.what();
        EXPECT_NE(text.find("ranks 0 and 1 have the same GPU, device 0 of their node"), text.npos) << text;
        EXPECT_NE(text.find("NCCL_HOSTID"), text.npos) << text;
    }
}

TEST_F(on_gpu, host_buffers_go_through_the_same_communicator) {
    communicator comm = create(plan_of(machines().front(), stages_of(machines().front(), "ring")));
    EXPECT_EQ(wrong_elements<float>(comm, 12345, 3), 0);
}

}  // namespace terrace::detail::test
