#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/error.hpp>

namespace terrace::detail {

/// Evidence that a rank has failed, strongest first, or that it is reachable or has shut down.
enum class evidence : std::uint8_t {
    process_ended,      ///< reported by the kernel of its node
    process_left,       ///< left earlier, after its shutdown message: failed if this rank waits for it, or as has_left
    connection_closed,  ///< the kernel of its node has closed a connection that the rank itself never closes
    stopped_by_signal,  ///< reported by the kernel of its node
    silent,             ///< its node's kernel acknowledges bytes sent there, and no thread of its process replies
    unacknowledged,     ///< its node's kernel has not acknowledged bytes sent there
    connection_lost,    ///< the transport has lost the connection
    acknowledged,       ///< its node's kernel has just acknowledged bytes sent there
    has_left            ///< just left, after its shutdown message: the failed one of two ranks that lose each other
};

/// Meaning of a kind of evidence.
struct evidence_row {
    failure of = failure::died;
    std::string_view words{};  ///< text for users; empty: no failure
};
inline constexpr std::array<evidence_row, 9> evidence_rows{{
    {failure::died, "its process has ended"},
    {failure::died, "its process has ended without making the call"},
    {failure::died, "its process has ended, or its node has started anew"},
    {failure::stopped, "by a signal, as SIGSTOP; SIGCONT continues it"},
    {failure::stopped, "its process answers nothing, and its node does; SIGCONT continues one that is stopped"},
    {failure::unreachable, "its node does not acknowledge what is sent to it"},
    {failure::unreachable, "the transport has lost the connection"},
}};
constexpr const evidence_row& row_of(evidence e) noexcept { return evidence_rows[static_cast<std::size_t>(e)]; }

/// Returns true if the evidence is that two ranks cannot reach each other: either of them may have failed.
constexpr bool is_of_a_pair(evidence e) noexcept { return row_of(e).of == failure::unreachable; }

/// Evidence about a rank.
struct sighting {
    int rank = 0;
    evidence by = evidence::process_ended;
};

/// Detects failed processes of a job, without their help. Ranks are the bootstrap's. Any thread may call it.
class liveness {
public:
    liveness() = default;
    liveness(const liveness&) = delete;
    liveness& operator=(const liveness&) = delete;
    virtual ~liveness() = default;

    /// Appends all current evidence. To be called repeatedly while a call waits: evidence that takes time is found only
    /// by repeated calls.
    /// @returns true if there may be more evidence soon: a rank has not answered for some time, or is stopped
    virtual bool look(std::vector<sighting>& found) noexcept = 0;
    /// Returns the number of connections (lifelines) of a rank to other nodes; equal on all ranks.
    virtual int lines(int rank) const noexcept = 0;
    /// Returns the name of a rank's host.
    virtual std::string host(int rank) const = 0;
    /// Describes the interfaces of this rank and of another one, and the settings that choose other interfaces.
    virtual std::string way(int rank) const = 0;
    /// Returns the ranks of other nodes that could not be reached when this object was made.
    virtual std::vector<int> unreached() const = 0;
};

}  // namespace terrace::detail
