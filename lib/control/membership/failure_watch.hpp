#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <terrace/options.hpp>

#include "control/membership/failure_agreement.hpp"

namespace terrace::detail {

/// Detects failed ranks while this rank waits, and lets all ranks agree on them: docs/reference/failures.md. Its
/// sources are the job's liveness, and the transport's lost connections.
class failure_watch {
public:
    /// @param callers_rank the caller's rank numbers, by rank of the endpoint; must outlive this
    failure_watch(control_router& router, const std::vector<int>& callers_rank,
                  std::chrono::duration<double> failure_timeout);

    /// Returns true if the processes of the job are watched.
    bool sees_all() const noexcept { return net_.base().watch != nullptr; }
    /// Returns true if it is time to call look(). @param waited time that this rank has waited
    bool has_work(std::chrono::duration<double> waited) noexcept;
    /// Checks for failures; control messages must have been read. Returns true once ranks agree on the failed ranks.
    /// @param awaits returns true if this rank itself waits for a rank of the endpoint
    /// @throws transport_error if a connection is lost and failures are not detected (options::failure_timeout is 0)
    bool look(const std::function<bool(int)>& awaits) {
        look_around(awaits);
        return agreement_.advance();
    }
    /// Returns the failed ranks, equal on all ranks that reach one another; empty until these agree.
    const failed_ranks& verdict() const noexcept { return agreement_.verdict(); }
    /// Returns true if more ranks than those of the verdict are known to have failed.
    bool knows_more() const { return agreement_.known_failed().size() > verdict().size(); }
    /// Begins another agreement, of all ranks that have not failed. Call look_anew() afterwards until it returns true.
    /// The verdict may be empty. Ranks that then continue with calls begin the next round by this function, too.
    void agree_anew() { agreement_.next_round(); }
    bool look_anew() {
        look_around([this](int rank) { return !agreement_.has_come(rank); });
        return agreement_.advance(true);
    }
    /// Records that all ranks that have not failed have agreed on the verdict, by look_anew().
    void note_all_agree() noexcept { all_agree_ = true; }
    /// Returns true once after note_all_agree().
    bool take_all_agree() noexcept { return std::exchange(all_agree_, false); }
    /// Returns failure_agreement::silent().
    std::vector<int> silent() const { return agreement_.silent(); }
    /// Returns the ranks of the verdict, by ascending rank, in the caller's numbering.
    std::vector<failed_rank> callers_failed() const;
    /// Reports the verdict to the network.
    void report_failures() const;
    /// Reports the verdict to the network, and throws. @param waits this rank's waits   @throws rank_failed_error
    [[noreturn]] void raise(std::vector<std::string> waits) const {
        report_failures();
        throw rank_failed_error(callers_failed(), std::move(waits));
    }

private:
    using clock = std::chrono::steady_clock;

    void look_around(const std::function<bool(int)>& awaits) {
        if (!net_.wire().lost().empty()) look_for_lost();
        if (net_.base().watch) ask_liveness(awaits);
    }
    void ask_liveness(const std::function<bool(int)>& awaits);
    void look_for_lost();

    endpoint& net_;
    const std::vector<int>& callers_rank_;
    std::chrono::duration<double> timeout_;
    failure_agreement agreement_;
    std::map<int, int> rank_of_member_;            // rank of the endpoint, by rank of the bootstrap
    std::vector<sighting> found_;                  // results of the last look
    std::map<int, clock::time_point> lost_since_;  // time when the loss was first seen, by peer
    clock::time_point next_look_{};
    bool all_agree_ = false;
};

}  // namespace terrace::detail
