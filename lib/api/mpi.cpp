#include <terrace/mpi.hpp>

#include <optional>

#include <fmt/format.h>

#include <terrace/version.hpp>

#include "api/core.hpp"
#include "api/environment.hpp"
#include "transport/mpi/mpi_transport.hpp"

namespace terrace::mpi {

communicator create(MPI_Comm world, const plan& p, const options& o) {
    const bool by_node = o.place == options::placement::by_node;
    const identity mine = identity_of(fmt::format("terrace {}, plan {}, placed {}, check {}{}", version(), p.id(),
                                                  by_node ? "by node" : "anywhere", to_string(o.check),
                                                  o.shared_memory ? "" : ", no shared memory"));
    return communicator(std::make_unique<communicator::core>(
        p, make_mpi_transport(world, mine, p.get().machine, o.place), mpi_rank(world), o));
}

communicator create(MPI_Comm world, const options& o) {
    std::optional<plan> p;
    try {
        p = load_plan(o);
    } catch (const error& e) {
        // The other ranks must learn of it rather than wait: nobody agrees with this.
        try {
            make_mpi_transport(world, identity_of(fmt::format("no plan ({})", e.what())), {}, o.place);
        } catch (const plan_error&) {
        }
        throw;
    }
    return create(world, *p, o);
}

}  // namespace terrace::mpi
