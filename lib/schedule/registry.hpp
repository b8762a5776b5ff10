#pragma once

#include <span>
#include <string>
#include <string_view>

#include "schedule/builder.hpp"

namespace terrace {

/// A way to run one stage over one group. A generator emits the part of the group's position `g.position`, ends on a
/// step of its own (it calls next_step before each exchange) and takes the same number of steps on every position. Null
/// where the algorithm does not do that collective.
struct algorithm {
    using generator = void (*)(builder& out, const group& g);

    std::string_view name;
    std::string_view summary;
    generator reduce_scatter = nullptr;  ///< mode scatter, up: shard i reduced at position i
    generator allgather = nullptr;       ///< mode scatter, down: shard i from position i to all
    generator reduce = nullptr;          ///< mode root, up
    generator broadcast = nullptr;       ///< mode root, down
    generator allreduce = nullptr;       ///< mode replicate
    bool native = false;                 ///< leaves the stage to ranks that share memory
    bool library = false;                ///< leaves the stage to the network's library
    int (*rounds)(int size) = nullptr;   ///< exchanges that must wait for one another in one collective: start-ups paid

    /// Or leaves the stage to somebody who may send some.
    bool sends() const noexcept { return !native && !library; }
    bool supports(mode m) const noexcept;
    generator up(mode m) const noexcept;
    generator down(mode m) const noexcept;  ///< null for replicate: nothing to do
};

/// All algorithms, in the order in which they are listed.
std::span<const algorithm> algorithms() noexcept;

/// Null if there is none of that name.
const algorithm* find_algorithm(std::string_view name) noexcept;

/// Whether each of the stages, all of known algorithms, sends messages itself.
bool all_send(std::span<const stage> stages) noexcept;

/// "ring, halving, ...": those that do `m`, for messages.
std::string algorithm_names(mode m);

}  // namespace terrace
