// The report while the program runs, requested by MPI_Pcontrol(2) or SIGUSR2.

#include <csignal>

#include <dlfcn.h>

#include <mpi.h>

#include <terrace/mpi_error.hpp>

#include "base/quiet_task.hpp"
#include "pmpi/errors.hpp"
#include "pmpi/real.hpp"
#include "pmpi/report.hpp"
#include "pmpi/settings.hpp"

namespace terrace::detail::pmpi {

std::atomic<bool> report_is_wanted{false};

namespace {

constexpr int flush = 2;  // MPI: "profile buffers are flushed"

void want_report(int) { report_is_wanted.store(true, std::memory_order_relaxed); }

// Installs the handler before the program's first call, since the signal would otherwise end the program.
struct signal_at_load {
    signal_at_load() {
        if (!named_report_file().empty()) answer_signal(SIGUSR2, want_report);
    }
};
const signal_at_load installed;

}  // namespace

void write_wanted_report() noexcept {
    report_is_wanted = false;
    int rank = 0, level = MPI_THREAD_SINGLE;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Query_thread(&level);
    if (rank != 0 || level == MPI_THREAD_MULTIPLE) return;
    const own_calls inside;
    or_warn("there is no report yet", [] { write_report(rows_of::this_rank); });
}

}  // namespace terrace::detail::pmpi

extern "C" {
__attribute__((visibility("default"))) int MPI_Pcontrol(const int level, ...) {
    static const auto by_mpi = reinterpret_cast<int (*)(int, ...)>(dlsym(RTLD_NEXT, "PMPI_Pcontrol"));
    using namespace terrace::detail::pmpi;
    if (level == flush && terrace::detail::mpi_is_up()) write_wanted_report();
    return by_mpi(level);
}
#ifdef OMPI_MAJOR_VERSION  // its Fortran library calls PMPI_*
__attribute__((visibility("default"), alias("MPI_Pcontrol"))) int PMPI_Pcontrol(const int level, ...);
#endif
}
