// A communicator that gets its device after creation, on the stand-in: shows nothing about a GPU.

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/device.hpp>
#include <terrace/loopback.hpp>

#include "api/core.hpp"
#include "gpu/stand_in_buffers.hpp"
#include "support/refusal.hpp"

namespace terrace::detail::test::use_device_test {

namespace {

plan two_by_two() { return all_stages(machine({2, 2}), "nccl"); }

void expect_sums(gpu_stand_in& gpus, communicator& comm) {
    constexpr std::size_t count = 301;
    device_buffer there(gpus, count);
    std::vector<float> here(count);
    allreduce_both(comm, there, here, 0);
}

void expect_sums_on_host(communicator& comm) {
    std::vector<float> here(301);
    fill(here.data(), comm.rank(), here.size());
    comm.allreduce(std::span(here));
    EXPECT_EQ(wrong(here.data(), comm.size(), here.size()), 0);
}

// Runs ranks without a device. Fails the test if a rule of the stand-in was broken.
void on_four_ranks(gpu_stand_in& gpus, const std::function<void(communicator&)>& body) {
    loopback::run(two_by_two(), body, patient());
    expect_well(gpus, {});
}

}  // namespace

TEST(use_device, buffers_of_host_and_device_as_with_a_device_from_the_beginning) {
    gpu_stand_in gpus({});
    on_four_ranks(gpus, [&](communicator& comm) {
        expect_sums_on_host(comm);
        use_device(core_of(comm), comm.rank(), &gpus.runtime());
        expect_sums(gpus, comm);
        run_others(gpus, comm, 301);
    });
}

TEST(use_device, parts_have_the_device_too) {
    gpu_stand_in gpus({});
    on_four_ranks(gpus, [&](communicator& comm) {
        use_device(core_of(comm), comm.rank(), &gpus.runtime());
        communicator part = *comm.split(comm.rank() % 2);
        constexpr std::size_t count = 77;
        device_buffer data(gpus, count);
        fill(data.data(), part.rank(), count);
        part.allreduce(std::span(data.data(), count));
        EXPECT_EQ(wrong(data.data(), 2, count), 0);
    });
}

TEST(use_device, stream_is_between_what_the_caller_puts_there) {
    gpu_stand_in gpus({.seed = 3});
    on_four_ranks(gpus, [&](communicator& comm) {
        constexpr std::size_t count = 5003;
        use_device(core_of(comm), comm.rank(), &gpus.runtime());
        const gpu_stream stream = nccl::stream_of(comm);
        device_buffer in(gpus, count), data(gpus, count), out(gpus, count);
        fill(in.data(), comm.rank(), count);
        gpus.runtime().copy(data.data(), in.data(), count * sizeof(float), stream);
        request started = comm.allreduce_async(std::span(data.data(), count));
        gpus.runtime().copy(out.data(), data.data(), count * sizeof(float), stream);
        gpus.wait_for(stream);
        EXPECT_EQ(wrong(out.data(), comm.size(), count), 0);
        EXPECT_TRUE(started.test());
    });
}

// If one rank has no such device, all ranks get an error, and go on with host buffers.
TEST(use_device, a_device_that_is_missing_leaves_the_communicator_as_it_was) {
    gpu_stand_in gpus({.devices = 4});
    on_four_ranks(gpus, [&](communicator& comm) {
        const std::string why = refusal_of<transport_error>(
            [&] { use_device(core_of(comm), comm.rank() == 2 ? 9 : comm.rank(), &gpus.runtime()); });
        EXPECT_NE(why.find("rank 2: device 9 of 4"), std::string::npos) << why;
        EXPECT_NE(refusal_of<usage_error>([&] { nccl::stream_of(comm); }).find("use_device"), std::string::npos);
        expect_sums_on_host(comm);
        use_device(core_of(comm), comm.rank(), &gpus.runtime());
        expect_sums(gpus, comm);
    });
}

TEST(use_device, all_ranks_learn_that_there_is_no_module) {
    options o = patient();
    o.gpu_module = "/nowhere/terrace-nccl.so";
    loopback::run(
        two_by_two(),
        [](communicator& comm) {
            const std::string why = refusal_of<transport_error>([&] { nccl::use_device(comm); });
            EXPECT_NE(why.find("rank 0: "), std::string::npos) << why;
            EXPECT_NE(why.find("/nowhere/terrace-nccl.so"), std::string::npos) << why;
        },
        o);
}

TEST(use_device, is_refused_where_there_is_a_device) {
    gpu_stand_in gpus({});
    on_four_ranks(gpus, [&](communicator& comm) {
        use_device(core_of(comm), comm.rank(), &gpus.runtime());
        const std::string why = refusal_of<usage_error>([&] { use_device(core_of(comm), 0, &gpus.runtime()); });
        EXPECT_NE(why.find("has device"), std::string::npos) << why;
    });
}

TEST(use_device, another_call_of_another_rank_is_found) {
    gpu_stand_in gpus({});
    const std::string why = refusal_of<usage_error>([&] {
        loopback::run(
            two_by_two(),
            [&](communicator& comm) {
                if (comm.rank() != 1) return use_device(core_of(comm), comm.rank(), &gpus.runtime());
                std::vector<float> here(9);
                comm.allreduce(std::span(here));
            },
            patient());
    });
    EXPECT_NE(why.find("use_device"), std::string::npos) << why;
}

}  // namespace terrace::detail::test::use_device_test
