#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/device.hpp>
#include <terrace/error.hpp>

#include "gpu/stand_in_ranks.hpp"
#include "plan/plan_access.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

// Common code of tests of device buffers on the stand-in.
namespace terrace::detail::test {

inline hierarchy machine(std::vector<int> sizes) {
    hierarchy m = machine_of(tree::uniform(sizes));
    m.levels.back().medium = fabric::ethernet;
    return m;
}

inline std::vector<stage> stages_of(const hierarchy& m, mode how, std::string_view by) {
    std::vector<stage> all;
    for (int l = 0; l < m.depth(); ++l) all.push_back(run_by({{l}, m.shape.uniform_size(l).value_or(0), how}, by));
    return all;
}

inline plan all_stages(const hierarchy& m, std::string_view by, int lanes = 1, std::int64_t chunk = 0,
                       mode how = mode::scatter) {
    return plan_of(m, stages_of(m, how, by), lanes, chunk);
}

// A buffer on a rank's device.
class device_buffer {
public:
    device_buffer(const gpu_stand_in& on, std::size_t count) : gpu_(on.runtime()), count_(count) {
        void* memory = nullptr;
        gpu_.allocate(&memory, count * sizeof(float));
        data_ = static_cast<float*>(memory);
    }
    device_buffer(const device_buffer&) = delete;
    device_buffer& operator=(const device_buffer&) = delete;
    ~device_buffer() { gpu_.release(data_); }

    float* data() { return data_; }
    device_span<float> span() { return {data_, count_}; }

private:
    const gpu_runtime& gpu_;
    std::size_t count_;
    float* data_;
};

inline float input(int rank, std::size_t i, int turn = 0) {
    return static_cast<float>((rank * 7 + static_cast<int>(i % 97) * 3 + turn) % 64);
}

inline float sum(int ranks, std::size_t i, int turn = 0) {
    float total = 0;
    for (int r = 0; r < ranks; ++r) total += input(r, i, turn);
    return total;
}

inline void fill(float* data, int rank, std::size_t count, int turn = 0) {
    for (std::size_t i = 0; i < count; ++i) data[i] = input(rank, i, turn);
}

inline std::int64_t wrong(const float* data, int ranks, std::size_t count, int turn = 0) {
    std::int64_t n = 0;
    for (std::size_t i = 0; i < count; ++i) n += data[i] != sum(ranks, i, turn);
    return n;
}

// Fails the test if a rank threw, a rule of the stand-in was broken, or a resource is left.
inline void expect_well(const gpu_stand_in& gpus, const std::vector<std::exception_ptr>& thrown) {
    for (std::size_t r = 0; r < thrown.size(); ++r) {
        if (!thrown[r]) continue;
        try {
            std::rethrow_exception(thrown[r]);
        } catch (const std::exception& e) {
            ADD_FAILURE() << "rank " << r << ": " << e.what();
        }
    }
    for (const std::string& what : gpus.violations()) ADD_FAILURE() << what;
    EXPECT_EQ(gpus.left(), "");
}

// Runs allreduces of a device buffer and a host buffer of equal length at the same time.
inline void allreduce_both(communicator& comm, device_buffer& there, std::vector<float>& here, int turn) {
    fill(there.data(), comm.rank(), here.size(), turn);
    fill(here.data(), comm.rank(), here.size(), turn + 1);
    request device = comm.allreduce_async(std::span(there.data(), here.size()));
    comm.allreduce(std::span(here));
    device.wait();
    EXPECT_EQ(wrong(there.data(), comm.size(), here.size(), turn), 0);
    EXPECT_EQ(wrong(here.data(), comm.size(), here.size(), turn + 1), 0);
}

// Runs a reduce-scatter, an allgather, a reduce to rank 2 and a broadcast from rank 1, one after another, with `n`
// elements per rank.
inline void run_others(gpu_stand_in& gpus, communicator& comm, std::size_t n) {
    const int me = comm.rank(), ranks = comm.size();
    const auto all = static_cast<std::size_t>(ranks);
    const gpu_stream stream = gpus.make_stream(me);
    device_buffer whole(gpus, all * n), own(gpus, n), gathered(gpus, all * n), reduced(gpus, n), shared(gpus, n);
    fill(whole.data(), me, all * n);
    nccl::reduce_scatter(comm, device_span<const float>(whole.span()), own.span(), reduce_op::sum, stream);
    nccl::allgather(comm, device_span<const float>(own.span()), gathered.span(), stream);
    nccl::reduce(comm, device_span<const float>(own.span()), reduced.span(), 2, reduce_op::max, stream);
    gpus.runtime().copy(shared.data(), own.data(), n * sizeof(float), stream);
    nccl::broadcast(comm, shared.span(), 1, stream);
    nccl::synchronize(comm);
    EXPECT_EQ(wrong(gathered.data(), ranks, all * n), 0);
    for (std::size_t i = 0; i < n; ++i) {
        float most = 0;
        for (std::size_t r = 0; r < all; ++r) most = std::max(most, sum(ranks, r * n + i));
        if (me == 2) {
            EXPECT_EQ(reduced.data()[i], most);
        }
        EXPECT_EQ(shared.data()[i], sum(ranks, n + i));
    }
}

// Returns the plan `scattering` with the rules of `rooted` for collectives with a root.
inline plan with_roots(const plan& scattering, const plan& rooted) {
    plan_data both = data_of(scattering);
    for (const auto& [what, rules] : data_of(rooted).rules)
        if (row_of(what).has_root()) both.rules[what] = rules;
    return to_plan(both);
}

inline std::string text_of(const std::exception_ptr& thrown) {
    if (!thrown) return "nothing";
    try {
        std::rethrow_exception(thrown);
    } catch (const timeout_error& e) {
        return std::string("timeout: ") + e.what();
    } catch (const transport_error& e) {
        return "transport: " + e.library() + " " + e.call() + ": " + e.what();
    } catch (const usage_error& e) {
        return std::string("usage: ") + e.what();
    } catch (const std::exception& e) {
        return std::string("other: ") + e.what();
    }
}

inline options patient(double seconds = 30) {
    options o;
    o.timeout = std::chrono::duration<double>(seconds);
    return o;
}

inline hierarchy uneven() {
    hierarchy m = machine_of(tree({{3, 1, 2}, {3}}));
    m.levels.back().medium = fabric::ethernet;
    return m;
}

/// Runs one allreduce of `count` elements on this rank and expects the right sums.
inline void allreduce_once(gpu_stand_in& gpus, communicator& comm, std::size_t count) {
    device_buffer data(gpus, count);
    const gpu_stream stream = gpus.make_stream(comm.rank());
    fill(data.data(), comm.rank(), count);
    nccl::allreduce(comm, data.span(), reduce_op::sum, stream);
    nccl::synchronize(comm);
    EXPECT_EQ(wrong(data.data(), comm.size(), count), 0);
}

// Lets the nth call of a function fail while all ranks make calls. Returns their exceptions. Buffers outlive all
// ranks, since streams of other ranks may read them after a call has failed.
inline std::vector<std::exception_ptr> fail_amid_calls(gpu_stand_in& gpus, const plan& p, const std::string& function,
                                                       int nth) {
    std::vector<std::unique_ptr<device_buffer>> buffers(static_cast<std::size_t>(p.ranks()));
    std::atomic<int> ready{0};
    return run_on_stand_in(
        gpus, p,
        [&](communicator& comm) {
            auto& data = buffers[static_cast<std::size_t>(comm.rank())];
            data = std::make_unique<device_buffer>(gpus, 3000);
            const gpu_stream stream = gpus.make_stream(comm.rank());
            comm.broadcast(std::span<float>(), 0);
            if (++ready == comm.size()) gpus.fail(function, nth, 2);
            for (int n = 0; n < 8; ++n) {
                nccl::allreduce(comm, data->span(), reduce_op::sum, stream);
                nccl::synchronize(comm);
            }
        },
        patient(1), false);
}

}  // namespace terrace::detail::test
