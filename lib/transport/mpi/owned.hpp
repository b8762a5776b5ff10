#pragma once

#include <mpi.h>

#include <string>

namespace terrace {

std::string error_text(int code);

/// For set-up. @throws transport_error
void check(int code, const char* call);

/// A communicator that reports errors, freed at the end.
class owned_comm {
public:
    explicit owned_comm(MPI_Comm comm);
    owned_comm(const owned_comm&) = delete;
    owned_comm& operator=(const owned_comm&) = delete;
    ~owned_comm();
    MPI_Comm get() const noexcept { return comm_; }
    /// Leaves it as it is: MPI then gives its context to no other.
    void abandon() noexcept { comm_ = MPI_COMM_NULL; }
    int rank() const;
    int size() const;

private:
    MPI_Comm comm_;
};

bool mpi_is_over() noexcept;

}  // namespace terrace
