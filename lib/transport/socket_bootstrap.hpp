#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "transport/interfaces.hpp"
#include "transport/ports.hpp"
#include "transport/team.hpp"

namespace terrace::detail {

/// Bootstrap over TCP connections between ranks, after another bootstrap has exchanged the addresses of their
/// listeners. In an exchange, the first rank gathers the values and returns all of them as one. Ranks therefore need a
/// launcher only to meet: not for parts of a job, nor after some of its processes have died.
class socket_bootstrap final : public bootstrap {
public:
    /// Listens on the first interface in use until destruction, and exchanges addresses with all ranks. Collective.
    /// @param at this host's interfaces, one of them in use @throws transport_error on all ranks if one cannot listen
    socket_bootstrap(team& ranks, const std::vector<network_interface>& at, port_range ports);

    /// Returns the address at which a rank listens: "10.0.0.1:5000".
    std::string place_of(int rank) const;
    /// Sets the longest wait in any function [s]; 0, the default: no limit.
    void set_timeout(std::chrono::duration<double> timeout) {
        const lock held(lines_lock_);
        timeout_ = timeout;
    }

    std::vector<std::string> exchange(std::span<const int> ranks, std::string_view key, std::string_view value,
                                      const wait_hook& look) override;

private:
    using job_key = std::array<std::uint64_t, 2>;
    struct place {      // listener of a rank
        job_key key{};  // rank 0's key is the job key
        std::uint32_t address = 0;
        std::uint16_t port = 0;  // in network order; 0: the rank cannot listen
    };
    struct hello {
        job_key key{};
        int from = 0;
    };
    struct line {
        descriptor fd;
        int peer = -1;  // -1 until the peer has sent the key
        std::string in, out;
        std::size_t sent = 0;  // sent bytes of `out`
    };
    using lock = std::unique_lock<std::mutex>;

    line& line_to(int rank);
    line* line_of(int rank) noexcept;
    void send(line& to, std::string_view key, std::string_view value);
    void move(lock& held);
    void read(line& from);
    bool write(line& to) noexcept;
    void take(line& from);
    template <class Done>
    void wait_for(std::vector<int> ranks, lock& held, const wait_hook& look, const Done& is_done);

    const int rank_;
    descriptor listener_;
    std::vector<place> places_;
    std::mutex lines_lock_;  // guards all below
    std::condition_variable moved_;
    bool moving_ = false;  // a thread polls for all threads, without the lock; only that thread removes lines
    std::chrono::duration<double> timeout_{};
    std::vector<line> lines_;
    std::map<std::string, std::map<int, std::string>, std::less<>> arrived_;  // values, by key and sender
};

}  // namespace terrace::detail
