#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include <terrace/communicator.hpp>

#include "bench/discover/probes.hpp"

namespace terrace::detail::bench {

/// Probes over the messages of a communicator, on any network. Rank 0 measures. The other ranks execute its orders, and
/// sleep in between. One per communicator.
class prober final : public probes {
public:
    explicit prober(communicator& comm);

    int ranks() const override { return comm_.size(); }
    /// Measurements, on rank 0 only. @throws transport_error, timeout_error, rank_failed_error
    double latency(int a, int b) override;
    double overhead(int a, int b) override;
    std::vector<double> rates(std::span<const stream> all) override;
    double rough_rate(const stream& self) override;
    /// Lets the other ranks return from answer(). On rank 0 only.
    void finish() {
        for (int r = 1; r < comm_.size(); ++r) send_order(r, {});
    }
    /// Executes the orders of rank 0 until it calls finish(). On all other ranks.
    void answer();

    /// Returns the text of each rank, by rank. Collective.
    static std::vector<std::string> names(communicator& comm, const std::string& own);

private:
    enum class kind : int { finish, latency, rates };
    struct order {
        kind what = kind::finish;
        int peer = 0;           ///< for latency; negative: this rank answers rank -peer - 1
        int message_bytes = 0;  ///< for rates
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
