#include <terrace/mpi_world.hpp>

#include <utility>

#include "api/core.hpp"
#include "api/creation/connect.hpp"
#include "api/creation/over_mpi.hpp"

namespace terrace::detail {

namespace {

template <class... Plan>
communicator create_by(const mpi_world& world, const options& o, const Plan&... p) {
    connection all = over_mpi(world, o);
    const int rank = all.ranks.rank();
    planned with = connect(std::move(all), p..., o);
    return make_communicator(with.by, std::move(with.net), rank, o);
}

}  // namespace

communicator create_over_mpi(const mpi_world& world, const plan& p, const options& o) { return create_by(world, o, p); }
communicator create_over_mpi(const mpi_world& world, const options& o) { return create_by(world, o); }

}  // namespace terrace::detail
