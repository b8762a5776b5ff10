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

/// A network, or a substitute for one, that connects teams of ranks. It outlives its connections.
class network {
public:
    explicit network(network_traits traits) : traits_(std::move(traits)) {}
    network(const network&) = delete;
    network& operator=(const network&) = delete;
    virtual ~network() = default;

    const network_traits& traits() const noexcept { return traits_; }

    /// Connects the ranks of a team, once per team. Collective over the team.
    /// @param slots messages and stages in flight are numbered 0 ... slots - 1   @throws transport_error
    virtual std::unique_ptr<messages> connect(team& ranks, int slots) = 0;

    /// Returns a runner of stages by the library below, if the library has collectives. Optional. Collective over the
    /// team. @param groups lists of the team's ranks, equal on all ranks and in the same order
    /// @param lane_slots stages that may run at once in one group @throws transport_error
    virtual std::unique_ptr<stage_runner> own_collectives(team& /*ranks*/, std::span<const std::vector<int>> /*groups*/,
                                                          int /*lane_slots*/) {
        return nullptr;
    }

    /// Reports failed ranks, as numbered by the bootstrap: once they are known, and again before the survivors connect
    /// anew. All survivors report the same ranks. @param dead the failed ranks whose processes have ended
    virtual void lose(std::span<const int> /*failed*/, std::span<const int> /*dead*/) {}

private:
    const network_traits traits_;
};

/// Ranks and the objects that connect them.
struct connection {
    std::shared_ptr<network> net;
    std::shared_ptr<region_source> memory;  ///< null if ranks share no memory
    team ranks;
    std::shared_ptr<liveness> watch{};            ///< watches all ranks of the bootstrap; null: no detection
    std::vector<network_interface> interfaces{};  ///< of this host
};

}  // namespace terrace::detail
