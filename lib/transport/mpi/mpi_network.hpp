#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <mpi.h>

#include "transport/mpi/mpi_module.hpp"
#include "transport/mpi/owned.hpp"
#include "transport/network.hpp"

namespace terrace::detail {

/// The ranks of an MPI communicator, of which it has a copy of its own.
class mpi_network : public network {
public:
    mpi_network(network_traits traits, std::shared_ptr<owned_comm> world);

    std::unique_ptr<messages> connect(team& ranks, int slots) override;
    std::unique_ptr<stage_runner> own_collectives(team& ranks, std::span<const std::vector<int>> groups,
                                                  int lane_slots) override;
    void lose(std::span<const int> dead) override;

protected:
    /// Makes a communicator of the team's ranks. Collective over these. @throws transport_error
    std::shared_ptr<owned_comm> connected(const team& ranks);

    const std::shared_ptr<owned_comm> world_;

private:
    struct connected_team {
        std::weak_ptr<owned_comm> comm;
        std::vector<int> members;
    };
    connected_team origin_of(const team& ranks) const;
    bool lacks_only_dead(const team& ranks, std::vector<int> origin) const;

    mutable std::mutex guard_;  // of all below
    std::map<std::string, connected_team> teams_;
    std::set<int> dead_;
};

/// Returns a copy of `world` for a network. Collective. @throws transport_error
std::shared_ptr<owned_comm> copy_of(MPI_Comm world);

/// Returns the properties of the MPI that this is linked to: whether it accepts memory of GPUs, and calls from several
/// threads.
network_traits mpi_traits();

/// Returns the ranks of `world` and a network of theirs. Collective. @throws transport_error
mpi_ranks join_mpi(MPI_Comm world);

}  // namespace terrace::detail
