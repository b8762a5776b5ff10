// MPICH calls nobody while it waits in MPI_Recv: requests of Terrace's would not move along there.

#include "pmpi/requests.hpp"

namespace terrace::detail::pmpi {

bool can_start() noexcept { return false; }

int start_by_terrace(const call&, attached&, row&, MPI_Request*) noexcept { return MPI_ERR_INTERN; }

}  // namespace terrace::detail::pmpi
