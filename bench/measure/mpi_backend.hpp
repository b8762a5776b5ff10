#pragma once

#include <memory>

#include <terrace/communicator.hpp>

#include "bench/measure/backend.hpp"

namespace terrace::detail::bench {

// Both are collective. @throws usage_error if the ranks have no MPI
communicator create_over_mpi(const setting& s, const plan& p);
/// Makes a plan for the job if `o` names none.
communicator create_over_mpi(const world& w, const options& o);
/// Makes the back end of MPI's own collectives.
std::unique_ptr<backend> make_mpi_backend(const setting& s);

}  // namespace terrace::detail::bench
