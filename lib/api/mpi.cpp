#include <terrace/mpi.hpp>

#include <fmt/format.h>

#include <terrace/version.hpp>

#include "api/core.hpp"
#include "transport/mpi/mpi_transport.hpp"

namespace terrace::mpi {

communicator create(MPI_Comm world, const plan& p, const options& o) {
    const bool by_node = o.place == options::placement::by_node;
    const identity mine =
        identity_of(fmt::format("terrace {}, plan {}, placed {}", version(), p.id(), by_node ? "by node" : "anywhere"));
    return communicator(std::make_unique<communicator::core>(
        p, make_mpi_transport(world, mine, p.get().machine, o.place), mpi_rank(world), o));
}

}  // namespace terrace::mpi
