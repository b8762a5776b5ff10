#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/error.hpp>

namespace terrace::detail {

/// By what it shows that a rank has failed, the surest first; and what shows that one is in reach, or why it is not.
enum class evidence : std::uint8_t {
    process_ended,      ///< the kernel of its node says so
    process_left,       ///< ended some time after its shutdown message: a failure only if this rank waits for it
    connection_closed,  ///< the kernel of its node has closed a connection that the rank itself never closes
    stopped_by_signal,  ///< the kernel of its node says so
    silent,             ///< its node's kernel acknowledges what is sent there, and no thread of it answers
    unacknowledged,     ///< its node's kernel has not acknowledged what was sent there
    connection_lost,    ///< the transport has lost it
    acknowledged,       ///< its node's kernel has just acknowledged what was sent there
    has_left            ///< has just closed after its shutdown message: if two ranks lose each other, this one failed
};

/// What evidence means.
struct evidence_row {
    failure of = failure::died;
    std::string_view words{};  ///< for users; none: it is no failure
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

/// Returns true where it takes two: that a rank cannot reach another may be the fault of either.
constexpr bool is_of_a_pair(evidence e) noexcept { return row_of(e).of == failure::unreachable; }

/// What is proved of a rank.
struct sighting {
    int rank = 0;
    evidence by = evidence::process_ended;
};

/// Sees which processes of a job have failed, without their help. Ranks are the bootstrap's. Any thread may call it.
class liveness {
public:
    liveness() = default;
    liveness(const liveness&) = delete;
    liveness& operator=(const liveness&) = delete;
    virtual ~liveness() = default;

    /// Looks around, and appends all that is proved by now. Call it again and again while a call waits: what takes time
    /// to prove is proved only while somebody looks.
    /// @returns true if more may be proved soon: a rank has not answered for some time, or is stopped
    virtual bool look(std::vector<sighting>& found) noexcept = 0;
    /// Returns how many connections tell about a rank from other nodes: the same on all ranks.
    virtual int lines(int rank) const noexcept = 0;
    /// Returns the name of a rank's host.
    virtual std::string host(int rank) const = 0;
    /// Returns the interfaces of this rank and of another one, and what chooses others, in words.
    virtual std::string way(int rank) const = 0;
    /// Returns the ranks of other nodes that could not be reached when this was made.
    virtual std::vector<int> unreached() const = 0;
};

}  // namespace terrace::detail
