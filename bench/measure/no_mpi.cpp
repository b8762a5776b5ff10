// Substitutes for the functions that require MPI, in a terrace-bench that was built without it.

#include <terrace/error.hpp>

#include "bench/device/device_backend.hpp"
#include "bench/measure/flow.hpp"
#include "bench/measure/mpi_backend.hpp"
#include "bench/modes.hpp"

namespace terrace::detail::bench {

namespace {

[[noreturn]] void refuse() { throw usage_error("this terrace-bench was built without MPI"); }

}  // namespace

std::unique_ptr<world> world_over_mpi(int&, char**&) { return nullptr; }
communicator create_over_mpi(const setting&, const plan&) { refuse(); }
communicator create_over_mpi(const world&, const options&) { refuse(); }
std::unique_ptr<backend> make_mpi_backend(const setting&) { refuse(); }
std::unique_ptr<backend> make_planned_on_device(const setting&, plan) { refuse(); }
std::unique_ptr<backend> make_nccl_backend(const setting&) { refuse(); }
double time_of_message(const world&, const flow&) { refuse(); }
void wait_asleep(const world&) { refuse(); }
int measure_links(const world&, const links_settings&) { refuse(); }
int describe_cluster(const world&, const detect_settings&) { refuse(); }

}  // namespace terrace::detail::bench
