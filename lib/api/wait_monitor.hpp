#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include <terrace/options.hpp>

#include "api/call_reports.hpp"
#include "calls/call_groups.hpp"
#include "control/control_plane.hpp"

namespace terrace::detail {

/// Does the checks of a rank that waits for other ranks: takes part in comparisons of calls, writes dumps requested by
/// SIGUSR1, detects failed ranks, and gives up at the deadline.
class wait_monitor {
public:
    /// The parts of a communicator in which a rank may wait. All must outlive the monitor.
    struct subject {
        control_plane& control;
        engine& running;
        call_groups& groups;
        call_reports& reports;
        const rank_numbers& ranks;
    };

    wait_monitor(const subject& of, const options& o);

    /// Compares calls if another rank requires it, and calls watch(). Call this repeatedly while a call waits.
    /// @throws usage_error if another rank has made a different call; and as watch()
    void look_around() {
        if (of_.control.call_order.listens()) of_.control.call_order.listen();
        watch();
    }
    /// Does all checks except comparisons; call it repeatedly while a call waits or calls are compared.
    /// @throws rank_failed_error once ranks have agreed on the failed ranks; timeout_error after options::timeout,
    /// naming the ranks and operations that this rank waits for
    void watch();

private:
    waiting waits() const;
    int end_of_chain() const {
        const std::optional<int> last = of_.control.wait_report.end();
        return last ? of_.ranks.callers[static_cast<std::size_t>(*last)] : -1;
    }
    void look_for_failures() const;
    void send_stamps() const;
    [[noreturn]] void time_out() const;
    void dump() const;
    void keep_metrics();

    subject of_;
    const options& options_;
    unsigned dumps_seen_;
    std::chrono::steady_clock::time_point metrics_due_{};
};

/// Returns "timed out after 2 s (options::timeout), waiting for rank 3, in the end for rank 0, which does not answer:
/// call 12: stage 1 up, step 4, chunk 7: recv rank 3". Ranks before the operations have both the caller's number and
/// that in the whole job; ranks in operations only the caller's.
/// @param seconds options::timeout   @param end last rank in the chain of waits, in the caller's numbering; -1: unknown
/// @param watched true: a failure of that rank would have been detected, so it has not made the call
/// @param world_ranks as in ranks_named
std::string timeout_message(double seconds, const waiting& for_what, int end, bool watched = false,
                            std::span<const int> world_ranks = {});

}  // namespace terrace::detail
