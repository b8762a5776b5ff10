#pragma once

#include <mpi.h>

#include <string>

namespace terrace::detail {

/// Returns MPI's words for an error code.
std::string error_text(int code);

/// For set-up. @throws transport_error
void check(int code, const char* call);

/// A communicator that reports errors, freed at the end unless it is abandoned.
class owned_comm {
public:
    explicit owned_comm(MPI_Comm comm);
    owned_comm(const owned_comm&) = delete;
    owned_comm& operator=(const owned_comm&) = delete;
    ~owned_comm();
    MPI_Comm get() const noexcept { return comm_; }
    /// Never frees it, so that MPI gives its context to no other.
    void abandon() noexcept { abandoned_ = true; }
    int rank() const;
    int size() const;

private:
    MPI_Comm comm_;
    bool abandoned_ = false;
};

bool mpi_is_over() noexcept;

}  // namespace terrace::detail
