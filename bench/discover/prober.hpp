#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include <terrace/communicator.hpp>

#include "bench/discover/probes.hpp"

namespace terrace::detail::bench {

/// Probes over the messages of a communicator, whatever network carries them. Rank 0 asks; all others answer, and sleep
/// between. One per communicator.
class prober final : public probes {
public:
    explicit prober(communicator& comm);

    int ranks() const override { return comm_.size(); }
    /// Rank 0 alone. @throws transport_error, timeout_error, rank_failed_error
    double latency(int a, int b) override;
    double overhead(int a, int b) override;
    std::vector<double> rates(std::span<const stream> all) override;
    double rough_rate(const stream& self) override;
    /// Rank 0 alone: lets the others return from answer().
    void finish() {
        for (int r = 1; r < comm_.size(); ++r) send_order(r, {});
    }
    /// All other ranks: answers until rank 0 is finished.
    void answer();

    /// Text of every rank, by rank. Collective.
    static std::vector<std::string> names(communicator& comm, const std::string& own);

private:
    enum class kind : int { finish, latency, rates };
    struct order {
        kind what = kind::finish;
        int peer = 0;           ///< of latency; negative: this rank answers -peer - 1
        int message_bytes = 0;  ///< of rates
        double duration = 0;    ///< [s]
        std::vector<int> to, from;
    };
    struct rated {
        double rate = 0;  ///< [B/s]
        int messages = 0;
    };

    void send_order(int rank, const order& o);
    double ping(int peer, bool first);
    std::vector<rated> run(const order& o);
    std::vector<rated> all_rates(std::span<const stream> all, int message_bytes, double duration);
    void receive_asleep(void* into, std::int64_t bytes, int from, int tag);

    communicator& comm_;
    std::chrono::microseconds nap_;
};

}  // namespace terrace::detail::bench
