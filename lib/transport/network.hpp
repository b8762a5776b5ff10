#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "transport/interfaces.hpp"
#include "transport/liveness.hpp"
#include "transport/messages.hpp"
#include "transport/shared_region.hpp"
#include "transport/stage_runner.hpp"
#include "transport/team.hpp"

namespace terrace::detail {

/// A network, or whatever stands in for one, that can connect teams of ranks. It outlives its connections.
class network {
public:
    explicit network(network_traits traits) : traits_(std::move(traits)) {}
    network(const network&) = delete;
    network& operator=(const network&) = delete;
    virtual ~network() = default;

    const network_traits& traits() const noexcept { return traits_; }

    /// Connects the ranks of a team, once per team. Collective over it.
    /// @param slots messages and stages in flight are numbered 0 ... slots - 1   @throws transport_error
    virtual std::unique_ptr<messages> connect(team& ranks, int slots) = 0;

    /// Returns a runner of stages by the library below, if it has collectives of its own. Optional. Collective over the
    /// team. @param groups the same on all ranks, in the same order: lists of the team's ranks
    /// @param lane_slots stages that may run at once in one group @throws transport_error
    virtual std::unique_ptr<stage_runner> own_collectives(team& /*ranks*/, std::span<const std::vector<int>> /*groups*/,
                                                          int /*lane_slots*/) {
        return nullptr;
    }

    /// Says which ranks have failed, by the bootstrap's numbering: when that is known, and again before others that
    /// have lost them connect anew. All of these say the same. @param dead those of them whose processes have ended
    virtual void lose(std::span<const int> /*failed*/, std::span<const int> /*dead*/) {}

private:
    const network_traits traits_;
};

/// Ranks and what connects them.
struct connection {
    std::shared_ptr<network> net;
    std::shared_ptr<region_source> memory;  ///< null where ranks share none
    team ranks;
    std::shared_ptr<liveness> watch{};            ///< of all ranks of the bootstrap; null where nobody looks
    std::vector<network_interface> interfaces{};  ///< of this host
};

}  // namespace terrace::detail
