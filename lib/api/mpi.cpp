#include <terrace/mpi.hpp>

#include "api/core.hpp"
#include "transport/mpi/mpi_transport.hpp"

namespace terrace::mpi {

communicator create(MPI_Comm world, const plan& p, const options& o) {
    return communicator(std::make_unique<communicator::core>(p, make_mpi_transport(world, p.get().machine, o.place),
                                                             mpi_rank(world), o));
}

}  // namespace terrace::mpi
