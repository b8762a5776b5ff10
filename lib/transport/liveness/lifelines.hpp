#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "transport/liveness.hpp"
#include "transport/liveness/descriptor.hpp"
#include "transport/team.hpp"

namespace terrace::detail {

/// TCP connections from this rank to some ranks of other nodes, which carry nothing: the kernels at their ends tell
/// when the process there has ended, and when its node cannot be reached. The rank at one end need do nothing, since
/// its kernel answers for it.
///
/// Rank j of a node has one to rank j of the nodes 1, 2, 4 ... further on, at most halfway around, so that each rank of
/// any nodes that are cut off together has one to a rank that is not.
class lifelines {
public:
    using clock = std::chrono::steady_clock;

    /// Connects. Collective. Where no connection can be made, there is none. Nobody listens any more when it returns.
    /// @param nodes ranks of the team, by node   @param silence how long a node may leave what is sent to it without an
    /// answer [s]   @throws transport_error
    lifelines(team& ranks, const std::vector<std::vector<int>>& nodes, std::chrono::duration<double> silence);
    lifelines(const lifelines&) = delete;
    lifelines& operator=(const lifelines&) = delete;
    /// Tells the other ends that this process goes on without them.
    ~lifelines();

    /// liveness::look
    void look(clock::time_point now, std::vector<sighting>& found) noexcept;
    /// Returns the ranks at the other ends, as the bootstrap numbers them.
    std::vector<int> ends() const;

private:
    struct line {
        int rank = 0;  // of the bootstrap
        descriptor fd;
        bool sure = false;                            // the other end is the rank that it should be
        bool left = false;                            // it goes on without this connection
        std::optional<clock::time_point> sent{};      // the first byte that is not known to be acknowledged
        std::optional<clock::time_point> answered{};  // when the last one that is was sent
        bool failed = false;
        clock::time_point failed_at{};
        evidence by = evidence::unacknowledged;  // of its failure
    };
    using job_key = std::array<std::uint64_t, 2>;
    struct greeting {
        job_key key{};
        std::int32_t from = 0, to = 0;  // ranks of the bootstrap
    };
    struct address_book;

    void call(const address_book& book, const std::vector<int>& targets, int me);
    void answer(const descriptor& listener, const job_key& key, int me, int expected);
    void add(int rank, descriptor fd, bool sure);
    void read(line& l) noexcept;
    void send_pulse(line& l, clock::time_point now) const noexcept;
    void look_for_answer(line& l, clock::time_point now) const noexcept;
    static void fail(line& l, int code) noexcept;

    const std::chrono::duration<double> silence_;
    std::vector<line> lines_;
    std::vector<pollfd> polled_;  // by line
    clock::time_point next_pulse_{};
};

}  // namespace terrace::detail
