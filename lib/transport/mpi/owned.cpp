#include "transport/mpi/owned.hpp"

#include <dlfcn.h>

#include <terrace/error.hpp>

namespace terrace::detail {

std::string error_text(int code) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "unknown error";
    return {text, static_cast<std::size_t>(length)};
}

void check(int code, const char* call) {
    if (code != MPI_SUCCESS) throw transport_error("mpi", call, code, error_text(code));
}

bool mpi_is_over() noexcept {
    int finalized = 0;
    MPI_Finalized(&finalized);
    return finalized != 0;
}

// The variable behind the parameter: MPI_T refuses to write it once MPI runs, and MPI_Finalize reads it.
void finalize_without_others() noexcept {
    if (auto* const parameter = static_cast<bool*>(::dlsym(RTLD_DEFAULT, "ompi_async_mpi_finalize"))) *parameter = true;
}

owned_comm::owned_comm(MPI_Comm comm) : comm_(comm) {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
}

owned_comm::~owned_comm() {
    if (comm_ != MPI_COMM_NULL && !abandoned_ && !mpi_is_over()) MPI_Comm_free(&comm_);
}

int owned_comm::rank() const {
    int rank = 0;
    check(MPI_Comm_rank(comm_, &rank), "MPI_Comm_rank");
    return rank;
}

int owned_comm::size() const {
    int size = 0;
    check(MPI_Comm_size(comm_, &size), "MPI_Comm_size");
    return size;
}

}  // namespace terrace::detail
