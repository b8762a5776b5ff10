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
    /// @param reserve copies of `world`, for ranks that are left after failures; see join_mpi
    mpi_network(network_traits traits, std::shared_ptr<owned_comm> world,
                std::vector<std::shared_ptr<owned_comm>> reserve = {});
    ~mpi_network() override;

    std::unique_ptr<messages> connect(team& ranks, int slots) override;
    std::unique_ptr<stage_runner> own_collectives(team& ranks, std::span<const std::vector<int>> groups,
                                                  int lane_slots) override;
    void lose(std::span<const int> failed, std::span<const int> dead) override;

protected:
    /// Makes a communicator of the team's ranks. Collective over these. @throws transport_error
    numbered_comm connected(team& ranks);

    const std::shared_ptr<owned_comm> world_;

private:
    struct connected_team {
        std::weak_ptr<owned_comm> comm;
        std::vector<int> members;
    };
    connected_team origin_of(const team& ranks) const;
    bool lacks_only(const std::set<int>& lost, const team& ranks, std::vector<int> origin) const;
    numbered_comm from_reserve(team& ranks);

    mutable std::mutex guard_;  // of all below
    std::map<std::string, connected_team> teams_;
    std::set<int> failed_, dead_;
    std::vector<std::shared_ptr<owned_comm>> reserve_;
    int next_reserve_ = 0;
};

/// Returns a copy of `world` for a network. Collective. @throws transport_error
std::shared_ptr<owned_comm> copy_of(MPI_Comm world);

/// Returns the properties of the MPI that this is linked to: whether it accepts memory of GPUs, and calls from several
/// threads.
network_traits mpi_traits();

/// Returns the ranks of `world` and a network of theirs. Collective. @throws transport_error
/// @param reserve how often ranks that are left after failures shall connect without making a communicator, which has
/// no timeout; the least that any rank says counts
mpi_ranks join_mpi(MPI_Comm world, int reserve);

}  // namespace terrace::detail
