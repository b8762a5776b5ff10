#pragma once

#include <memory>

#include <terrace/communicator.hpp>

#include "bench/measure/backend.hpp"

namespace terrace::detail::bench {

// Both collective. @throws usage_error where ranks have no MPI
communicator create_over_mpi(const setting& s, const plan& p);
/// A plan is made for the job where `o` names none.
communicator create_over_mpi(const world& w, const options& o);
/// MPI's own collectives.
std::unique_ptr<backend> make_mpi_backend(const setting& s);

}  // namespace terrace::detail::bench
