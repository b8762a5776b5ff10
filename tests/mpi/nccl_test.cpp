// Errors of creating a communicator for device buffers without a GPU. The rest is in tests/gpu.

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <mpi.h>

#include <terrace/mpi.hpp>
#include <terrace/nccl.hpp>

#include "gpu/device.hpp"
#include "mpi/plans.hpp"
#include "support/mpi_ranks.hpp"
#include "support/refusal.hpp"

namespace terrace::detail::test {

namespace {

plan flat_plan() { return flat(machine_of(tree::uniform(std::vector{ranks()}))); }

std::string refusal(const std::string& module) {
    options o = anywhere();
    o.gpu_module = module;
    return refusal_of<transport_error>([&] { nccl::create(MPI_COMM_WORLD, flat_plan(), nccl::device_by_rank, o); });
}

}  // namespace

TEST(nccl_create, says_that_there_is_no_module) {
    const std::string why = refusal("/nowhere/terrace-nccl.so");
    EXPECT_NE(why.find("/nowhere/terrace-nccl.so"), std::string::npos) << why;
    EXPECT_NE(why.find("LD_LIBRARY_PATH"), std::string::npos) << why;
}

TEST(nccl_create, a_rank_without_the_module_does_not_leave_the_others_waiting) {
    if (ranks() == 1) GTEST_SKIP() << "takes two ranks";
    options o = anywhere();
    o.gpu_module = "/nowhere/terrace-nccl.so";
    try {
        if (rank() == 0) nccl::create(MPI_COMM_WORLD, flat_plan(), 0, o);
        else mpi::create(MPI_COMM_WORLD, flat_plan(), o);
        ADD_FAILURE() << "created";
    } catch (const transport_error& e) {
        EXPECT_EQ(rank(), 0) << e.what();
    } catch (const plan_error& e) {
        EXPECT_NE(std::string(e.what()).find("rank 0 has no GPU ("), std::string::npos) << e.what();
    }
}

TEST(nccl_create, says_that_there_is_no_gpu) {
    const gpu_module m = module_of_tests();
    if (m.runtime == nullptr) GTEST_SKIP() << m.trouble;
    if (no_device(m).empty()) GTEST_SKIP() << "there is a GPU";
    const std::string why = refusal(m.path);
    EXPECT_NE(why.find("rank 0: "), std::string::npos) << why;
    EXPECT_NE(why.find("nvidia-smi"), std::string::npos) << why;
    // Host buffers still work.
    communicator comm = mpi::create(MPI_COMM_WORLD, flat_plan(), anywhere());
    EXPECT_EQ(wrong_elements<float>(comm, 1234, 3), 0);
}

}  // namespace terrace::detail::test
