// The conformance suite on the stand-in for GPUs, which accepts all memory as device memory.

#include <gtest/gtest.h>

#include "conformance/world.hpp"
#include "gpu/stand_in_ranks.hpp"
#include "support/effort.hpp"

namespace terrace::detail::test {

namespace {

report run_ranks(const plan& p, const rank_main& body) {
    report seen(static_cast<std::size_t>(p.ranks()));
    options o;
    o.timeout = std::chrono::seconds(60);  // a deadlock is an error
    static std::uint64_t run = 0;
    gpu_stand_in gpus({.devices = p.ranks(), .any_memory = true, .concurrent = ++run % 2 == 0});
    for (const std::exception_ptr& thrown : run_on_stand_in(
             gpus, p, [&](communicator& comm) { seen[static_cast<std::size_t>(comm.rank())] = body(comm); }, o))
        if (thrown) std::rethrow_exception(thrown);
    for (const std::string& what : gpus.violations()) ADD_FAILURE() << what;
    EXPECT_EQ(gpus.left(), "");
    return seen;
}

}  // namespace

std::vector<world> worlds() {
    std::vector<int> sizes{4, 8, 3, 2, 1};
    if (slowness > 1) sizes = {2};  // tests/gpu has more
    else sizes.resize(static_cast<std::size_t>(share("numbers of ranks on the stand-in", 5, 1)));
    return {{"nccl_stand_in", sizes, run_ranks, false}};  // device buffers have no factors
}

}  // namespace terrace::detail::test
