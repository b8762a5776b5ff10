#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/router.hpp"
#include "executor/engine.hpp"
#include "executor/waits.hpp"

namespace terrace::detail {

/// Lets all ranks change to another plan at one call, which has the same number on all ranks.
///
/// Rank 0 of the plan sends the new plan, or the number of a plan that it has sent before. When a rank has all of it,
/// it answers with the call that it issued last. It then begins at most one more call until it knows the first call of
/// the new plan. Rank 0 chooses a call that no rank can have begun.
class plan_changes final : public control_service {
public:
    /// @param calls engine whose call numbers ranks exchange; must outlive this
    plan_changes(control_router& router, const engine& calls)
        : control_service(router, service::plan_change), calls_(calls) {}

    /// On rank 0: returns true if a plan may be proposed.
    bool is_idle() const noexcept { return sending_.text.empty() && answers_.empty() && !first_; }
    /// On rank 0: proposes a plan. Must be idle.
    void propose(std::string text);
    /// On rank 0: sends the next part of the proposed plan.
    void look();

    /// Returns true if a change to another plan is in progress. If not, the next call may begin.
    bool is_under_way() const noexcept { return last_.has_value(); }
    /// Returns true if the next call may begin, since its plan is known.
    bool may_begin() noexcept;
    /// Returns the plan of the next call and of later ones, if it is a new one, only once.
    std::optional<std::string> due();
    /// Returns the first call of the plan that due() returned last; 0: none.
    std::uint64_t changed_at() const noexcept { return changed_at_; }
    /// Returns the time since may_begin() first returned false; 0 if it returned true last.
    std::chrono::duration<double> age() const noexcept {
        return since_ == clock::time_point{} ? clock::duration{} : clock::now() - since_;
    }
    /// Adds the ranks that the next call waits for, if it may not begin.
    void add_waits(const std::vector<int>& callers_rank, waiting& all) const;
    /// Ends the service before the communicator ends: this rank begins no more calls, and ignores messages of this
    /// service. @param announces true: informs the other ranks, which may wait for this rank before their last calls
    void end(bool announces) noexcept;

private:
    using clock = std::chrono::steady_clock;

    void receive(int from, const control_frame& f) override;
    void take_answer(int from, std::uint64_t issued);
    void take();

    const engine& calls_;
    // On rank 0: the plan that is being sent.
    struct {
        std::string text{};
        std::size_t sent = 0;
    } sending_;
    std::map<int, std::uint64_t> answers_;  // on rank 0: call issued last, by rank
    // The received part of a plan that is being sent.
    struct {
        std::string text{};
        std::size_t missing = 0;  // bytes
        bool is_here = false;     // complete, but not answered yet
    } coming_;
    std::vector<std::string> known_;      // texts of all plans sent, in the same order on all ranks
    std::string text_;                    // text of the next plan
    std::optional<std::uint64_t> last_;   // last call that may begin while first_ is unknown
    std::optional<std::uint64_t> first_;  // first call of the new plan
    std::uint64_t changed_at_ = 0;
    clock::time_point since_{};  // time when a call first had to wait; 0: none waits
    bool ended_ = false;
};

}  // namespace terrace::detail
