#include "transport/mpi/ulfm.hpp"

#include <dlfcn.h>

#include "transport/mpi/owned.hpp"

namespace terrace::detail::ulfm {

namespace {

template <class Function>
Function* find(const char* name) noexcept {
    return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

auto* shrink_of_mpi() noexcept {
    static auto* const found = find<int(MPI_Comm, MPI_Comm*)>("MPIX_Comm_shrink");
    return found;
}

}  // namespace

bool is_there() noexcept { return shrink_of_mpi() != nullptr; }

// Recognises MPI_ERR_PROC_FAILED and MPI_ERR_PROC_FAILED_PENDING by name, since older headers lack them.
bool is_of_a_death(int code) { return code != MPI_SUCCESS && error_text(code).starts_with("MPI_ERR_PROC_FAILED"); }

void acknowledge_deaths(MPI_Comm comm) noexcept {
    static auto* const acknowledge = find<int(MPI_Comm, int, int*)>("MPIX_Comm_ack_failed");
    int size = 0, done = 0;
    if (acknowledge != nullptr && MPI_Comm_size(comm, &size) == MPI_SUCCESS) acknowledge(comm, size, &done);
}

int shrink(MPI_Comm comm, MPI_Comm* made) noexcept { return is_there() ? shrink_of_mpi()(comm, made) : MPI_ERR_OTHER; }

}  // namespace terrace::detail::ulfm
