// Staging of device buffers through host memory, on the stand-in for CUDA: shows nothing about a GPU.

#include <terrace/loopback.hpp>

#include <bit>
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "api/device/stager.hpp"
#include "support/gpu_stand_in.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test {

namespace {

constexpr std::size_t chunk = 4096;  // bytes: 1024 floats

// Returns plans for allreduce, reduce-scatter and allgather; or for allreduce, broadcast and reduce.
plan scattered(int ranks) {
    return plan_of(machine_of(tree::uniform(std::vector{ranks})), {{{0}, ranks, mode::scatter, "halving"}}, 2, 1024);
}
plan rooted(int ranks) {
    return plan_of(machine_of(tree::uniform(std::vector{ranks})), {{{0}, ranks, mode::root, "direct"}}, 2, 1024);
}

class device_floats {
public:
    device_floats(const gpu_runtime& gpu, std::size_t count) : gpu_(gpu), count_(count) {
        void* memory = nullptr;
        gpu_.allocate(&memory, count * sizeof(float));
        data_ = static_cast<float*>(memory);
        std::memset(data_, 0xb5, count * sizeof(float));
    }
    device_floats(const device_floats&) = delete;
    device_floats& operator=(const device_floats&) = delete;
    ~device_floats() { gpu_.release(data_); }
    float* data() { return data_; }
    device_span<float> span() { return {data_, count_}; }
    device_span<const float> input() { return span(); }

private:
    const gpu_runtime& gpu_;
    std::size_t count_;
    float* data_ = nullptr;
};

float input_of(int rank, std::size_t i) {
    return static_cast<float>((static_cast<std::size_t>(rank) * 7 + i * 3) % 61);
}

float summed(int ranks, std::size_t i) {
    float total = 0;
    for (int r = 0; r < ranks; ++r) total += input_of(r, i);
    return total;
}

void fill(device_floats& to, int rank, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to.data()[i] = input_of(rank, i);
}

// Runs ranks as threads, each with its own stager over host messages.
void with_staging(gpu_stand_in& gpus, const plan& p,
                  const std::function<void(communicator&, staging&, gpu_stream)>& body) {
    loopback::run(p, [&](communicator& comm) {
        gpus.runtime().use_device(comm.rank());
        const gpu_stream stream = gpus.make_stream(comm.rank());
        staging s = staging_access::make(std::make_unique<stager>(gpus.runtime(), comm, comm.rank(), chunk));
        body(comm, s, stream);
    });
    EXPECT_EQ(gpus.violations(), std::vector<std::string>{});
    EXPECT_EQ(gpus.left(), "");
}

}  // namespace

TEST(staging, vectors_and_blocks_of_any_count) {
    for (const int ranks : {1, 2, 3, 4})
        for (const std::size_t count : {0u, 1u, 255u, 1024u, 1025u, 9001u}) {
            gpu_stand_in gpus({});
            with_staging(gpus, scattered(ranks), [&](communicator& comm, staging& s, gpu_stream stream) {
                const auto p = static_cast<std::size_t>(ranks), me = static_cast<std::size_t>(comm.rank());
                device_floats whole(gpus.runtime(), count), other(gpus.runtime(), count),
                    all(gpus.runtime(), p * count);
                fill(whole, comm.rank(), count);
                s.allreduce(whole.input(), other.span(), reduce_op::sum, stream);
                for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(other.data()[i], summed(ranks, i)) << i;
                s.allreduce(other.span(), reduce_op::max, stream);
                for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(other.data()[i], summed(ranks, i)) << i;
                fill(all, comm.rank(), p * count);
                s.reduce_scatter(all.input(), whole.span(), reduce_op::sum, stream);
                for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(whole.data()[i], summed(ranks, me * count + i)) << i;
                s.allgather(whole.input(), all.span(), stream);
                for (std::size_t i = 0; i < p * count; ++i) ASSERT_EQ(all.data()[i], summed(ranks, i)) << i;
            });
        }
}

TEST(staging, from_and_to_one_rank) {
    for (const int ranks : {1, 2, 4})
        for (const std::size_t count : {1u, 1025u, 9001u}) {
            gpu_stand_in gpus({});
            with_staging(gpus, rooted(ranks), [&](communicator& comm, staging& s, gpu_stream stream) {
                device_floats data(gpus.runtime(), count), result(gpus.runtime(), count);
                fill(data, comm.rank(), count);
                s.reduce(data.input(), result.span(), 0, reduce_op::sum, stream);
                const float untouched = std::bit_cast<float>(0xb5b5b5b5u);
                for (std::size_t i = 0; i < count; ++i)
                    ASSERT_EQ(result.data()[i], comm.rank() == 0 ? summed(ranks, i) : untouched) << i;
                s.broadcast(data.span(), ranks - 1, stream);
                for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data.data()[i], input_of(ranks - 1, i)) << i;
            });
        }
}

TEST(staging, calls_make_nothing) {
    gpu_stand_in gpus({});
    const auto made = [&] {
        std::map<std::string, int> calls = gpus.calls();
        return calls["cudaMalloc"] + calls["cudaStreamCreateWithFlags"] + calls["cudaEventCreateWithFlags"];
    };
    with_staging(gpus, scattered(1), [&](communicator&, staging& s, gpu_stream stream) {
        device_floats data(gpus.runtime(), 9001);
        fill(data, 0, 9001);
        const int before = made();
        for (int times = 0; times < 3; ++times) s.allreduce(data.span(), reduce_op::sum, stream);
        EXPECT_EQ(made(), before);
    });
}

// The stand-in runs the stream's work at random times. The last copy of that work writes the input.
TEST(staging, a_call_waits_for_its_stream) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        gpu_stand_in gpus({.seed = seed});
        with_staging(gpus, scattered(2), [&](communicator& comm, staging& s, gpu_stream stream) {
            constexpr std::size_t count = 1500;
            device_floats from(gpus.runtime(), count), data(gpus.runtime(), count), other(gpus.runtime(), count);
            fill(from, comm.rank(), count);
            for (int times = 0; times < 200; ++times)
                gpus.runtime().copy(other.data(), from.data(), count * sizeof(float), stream);
            gpus.runtime().copy(data.data(), other.data(), count * sizeof(float), stream);
            s.allreduce(data.span(), reduce_op::sum, stream);
            for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data.data()[i], summed(2, i));
        });
    }
}

TEST(staging, failures_of_cuda_are_errors_and_leave_nothing) {
    struct {
        const char *function, *said;
        int n;
    } const cases[] = {{"cudaMalloc", "cudaMallocHost", 2},  // the test makes the first call
                       {"cudaStreamCreateWithFlags", "cudaStreamCreate", 2},
                       {"cudaEventCreateWithFlags", "cudaEventCreate", 5},
                       {"cudaMemcpyAsync", "cudaMemcpyAsync", 3},
                       {"cudaEventRecord", "cudaEventRecord", 4}};
    for (const auto& [function, said, n] : cases) {
        gpu_stand_in gpus({});
        gpus.fail(function, n, 700);
        std::string thrown;
        loopback::run(scattered(1), [&](communicator& comm) {
            device_floats data(gpus.runtime(), 5000);
            fill(data, 0, 5000);
            try {
                staging s = staging_access::make(std::make_unique<stager>(gpus.runtime(), comm, 0, chunk));
                s.allreduce(data.span(), reduce_op::sum, gpus.make_stream(0));
            } catch (const transport_error& e) {
                thrown = e.call();
                EXPECT_EQ(e.code(), 700);
            }
        });
        EXPECT_EQ(thrown, said);
        EXPECT_EQ(gpus.left(), "");
    }
}

TEST(staging, chunks_hold_an_element_of_each_block) {
    gpu_stand_in gpus({});
    loopback::run(scattered(17), [&](communicator& comm) {
        staging s = staging_access::make(std::make_unique<stager>(gpus.runtime(), comm, comm.rank() % 16, 64));
        EXPECT_THROW(s.allgather(device_span<const float>(nullptr, 5), device_span<float>(nullptr, 85), nullptr),
                     usage_error);
    });
}

}  // namespace terrace::detail::test
