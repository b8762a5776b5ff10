#include <terrace/mpi_world.hpp>

#include "api/core.hpp"
#include "api/creation/connect.hpp"
#include "api/creation/over_mpi.hpp"

namespace terrace::detail {

communicator create_over_mpi(const mpi_world& world, const plan& p, const options& o) {
    return make_communicator(connect(over_mpi(world, o), p, o), o);
}

communicator create_over_mpi(const mpi_world& world, const options& o) {
    return make_communicator(connect(over_mpi(world, o), o), o);
}

}  // namespace terrace::detail
