#pragma once

#include <memory>

#include "transport/module.hpp"
#include "transport/network.hpp"

namespace terrace::detail {

/// The ranks of an MPI communicator.
struct mpi_ranks {
    std::shared_ptr<network> net;
    std::shared_ptr<bootstrap> boot;
    int rank = 0, size = 0;
};

/// The table of a module for one MPI, exported as `terrace_mpi_module`.
struct mpi_module {
    module_head head;
    /// Returns the ranks of a communicator and their network, over a copy of it. Collective.
    /// @param comm pointer to an MPI_Comm   @param reserve communicators to make in advance, for connections after
    /// failures, since making one then has no timeout. The lowest value of all ranks counts   @throws transport_error
    mpi_ranks (*join)(const void* comm, int reserve);
    void (*function)();  ///< MPI_Comm_rank of the MPI that the module is linked to
};

}  // namespace terrace::detail
