#pragma once

#include <mpi.h>

#include "transport/network.hpp"

namespace terrace::detail::bench {

/// Returns the ranks of `world` and a network of theirs under SimGrid's MPI, whose time moves on while ranks sleep in
/// it, and not while they poll. They share no memory. Collective. @throws transport_error
connection join_smpi(MPI_Comm world);

}  // namespace terrace::detail::bench
