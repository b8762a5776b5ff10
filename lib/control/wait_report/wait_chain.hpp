#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "control/router.hpp"

namespace terrace::detail {

/// Finds the rank that a stuck job waits for in the end. A rank that has waited for half of its timeout asks the rank
/// that it waits for whom that one waits for, asks that one in turn, and so on. Ranks answer while they wait, so that
/// the chain ends at one that makes no call. The search is made anew several times
/// before the deadline, as the job may move on meanwhile. Ranks are those of the plan.
class wait_chain final : public control_service {
public:
    /// @param timeout options::timeout; 0: nobody asks
    wait_chain(control_router& router, std::chrono::duration<double> timeout)
        : control_service(router, service::wait_report), timeout_(timeout) {}
    void set_timeout(std::chrono::duration<double> timeout) noexcept { timeout_ = timeout; }

    /// Whether another rank waits for an answer, or it is time to ask.
    bool has_work(std::chrono::duration<double> waited) const noexcept {
        return !unanswered_.empty() || (timeout_.count() > 0 && waited > timeout_ / 2);
    }
    /// Answers, and asks. @param awaited a rank that this rank waits for
    void look(std::chrono::duration<double> waited, int awaited);
    /// Returns the rank that has not answered, once it has had time to.
    std::optional<int> end() const;
    /// Tells those who have asked, since this rank will answer no more. @param awaited as above
    void give_up(int awaited) {
        for (const int peer : askers_) answer(peer, wait_kind::last_reply, end().value_or(awaited));
    }
    /// Whether a message of this search may still be under way to a rank that does not read it.
    bool is_open() const noexcept { return !open_.empty(); }

private:
    using clock = std::chrono::steady_clock;

    void receive(int from, const control_frame& f) override;
    std::optional<int> reached() const;
    // As far along the chain as this rank knows it: so all need few questions.
    void answer(int peer, wait_kind kind, int awaited) {
        const std::optional<int> far = reached();
        const int who = far && *far != peer ? *far : awaited;
        send_control(peer, kind, {.number = static_cast<std::uint32_t>(who)});
    }

    std::chrono::duration<double> timeout_;
    int awaited_ = -1;                        // by this rank itself
    int rounds_ = 0;                          // begun since that changed
    std::map<int, int> waits_for_;            // what others have answered in this round
    std::map<int, int> gone_;                 // what those have answered who have given up
    std::map<int, clock::time_point> asked_;  // in this round
    std::optional<int> found_;                // in the round before
    std::set<int> open_;                      // who have never answered a question
    std::set<int> askers_, unanswered_;       // who have asked this rank
};

}  // namespace terrace::detail
