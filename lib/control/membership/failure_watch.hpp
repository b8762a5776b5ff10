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

/// Finds ranks that have failed while this one waits, and lets all ranks agree on them: docs/reference/failures.md. It
/// asks the job's liveness, and the transport for connections that it has lost.
class failure_watch {
public:
    /// @param callers_rank the caller's numbering by rank of the endpoint; must outlive this
    failure_watch(control_router& router, const std::vector<int>& callers_rank,
                  std::chrono::duration<double> failure_timeout);

    /// Whether somebody looks at the processes of the job.
    bool sees_all() const noexcept { return net_.base().watch != nullptr; }
    /// Whether it is time for look(), for a rank that has waited so long.
    bool has_work(std::chrono::duration<double> waited) noexcept;
    /// Looks around. Control messages must have been taken. Returns true once ranks have agreed on who has failed.
    /// @param awaits whether this rank itself waits for a rank of `net`
    /// @throws transport_error where a connection is lost and nobody looks for failures
    bool look(const std::function<bool(int)>& awaits) {
        look_around(awaits);
        return agreement_.advance();
    }
    /// Who has failed, as all ranks that reach one another say; empty until they agree.
    const failed_ranks& verdict() const noexcept { return agreement_.verdict(); }
    /// Whether more ranks than those of the verdict are known to have failed.
    bool knows_more() const { return agreement_.known_failed().size() > verdict().size(); }
    /// Begins to agree anew, with all ranks that have not failed. Then call look_anew() until it is true: the verdict
    /// may be that none has failed. Ranks that go on with calls then begin the next round by this, too.
    void agree_anew() { agreement_.next_round(); }
    bool look_anew() {
        look_around([this](int rank) { return !agreement_.has_come(rank); });
        return agreement_.advance(true);
    }
    /// Says that all ranks that have not failed have agreed on the verdict, by look_anew().
    void note_all_agree() noexcept { all_agree_ = true; }
    /// Returns whether that has been said, once.
    bool take_all_agree() noexcept { return std::exchange(all_agree_, false); }
    /// failure_agreement::silent
    std::vector<int> silent() const { return agreement_.silent(); }
    /// The ranks of the verdict, by ascending rank, in the caller's numbering.
    std::vector<failed_rank> callers_failed() const;
    /// Says so to the network.
    void report_failures() const;
    /// Tells the network, and throws. @param waits what this rank is waiting for   @throws rank_failed_error
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
    std::map<int, int> rank_of_member_;            // rank of `net`, by rank of the bootstrap
    std::vector<sighting> found_;                  // by the last look
    std::map<int, clock::time_point> lost_since_;  // by peer
    clock::time_point next_look_{};
    bool all_agree_ = false;
};

}  // namespace terrace::detail
