#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "control/router.hpp"

namespace terrace::detail {

/// Finds the rank that a stuck job waits for in the end. After half of its timeout, a rank sends a question to the rank
/// that it waits for: which rank do you wait for? It then sends the question to the rank in the answer, and so on.
/// Ranks answer while they wait, so the chain ends at a rank that makes no call. The search is repeated several times
/// before the deadline, since the job may progress meanwhile. Ranks are numbered as in the plan.
class wait_chain final : public control_service {
public:
    /// @param timeout options::timeout; 0: no search
    wait_chain(control_router& router, std::chrono::duration<double> timeout)
        : control_service(router, service::wait_report), timeout_(timeout) {}
    void set_timeout(std::chrono::duration<double> timeout) noexcept { timeout_ = timeout; }

    /// Returns true if another rank waits for an answer, or if it is time to send a question.
    bool has_work(std::chrono::duration<double> waited) const noexcept {
        return !unanswered_.empty() || (timeout_.count() > 0 && waited > timeout_ / 2);
    }
    /// Answers questions, and sends the next one. @param awaited a rank that this rank waits for
    void look(std::chrono::duration<double> waited, int awaited);
    /// Returns the end of the chain: the rank that has not answered, once it has had time to.
    std::optional<int> end() const;
    /// Sends last replies to all ranks with questions, since this rank will not answer again. @param awaited as above
    void give_up(int awaited) {
        for (const int peer : askers_) answer(peer, wait_kind::last_reply, end().value_or(awaited));
    }
    /// Returns true if a question may still be in flight to a rank that does not read it.
    bool is_open() const noexcept { return !open_.empty(); }

private:
    using clock = std::chrono::steady_clock;

    void receive(int from, const control_frame& f) override;
    std::optional<int> reached() const;
    // Answers with the last rank of the chain that this rank knows. So each rank needs few questions.
    void answer(int peer, wait_kind kind, int awaited) {
        const std::optional<int> far = reached();
        const int who = far && *far != peer ? *far : awaited;
        send_control(peer, kind, {.number = static_cast<std::uint32_t>(who)});
    }

    std::chrono::duration<double> timeout_;
    int awaited_ = -1;                        // rank that this rank waits for
    int rounds_ = 0;                          // rounds begun since awaited_ changed
    std::map<int, int> waits_for_;            // answers of other ranks in this round: the ranks that they wait for
    std::map<int, int> gone_;                 // last replies of ranks that have given up
    std::map<int, clock::time_point> asked_;  // time of the question, by rank, in this round
    std::optional<int> found_;                // result of the round before
    std::set<int> open_;                      // ranks that have not answered a question
    std::set<int> askers_, unanswered_;       // ranks that have sent a question; those without an answer
};

}  // namespace terrace::detail
