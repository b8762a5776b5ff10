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

/// Lets all ranks run by another plan from one call on, which has the same number on all of them.
///
/// Rank 0 of the plan sends the plan, or the number of one that it has sent before. Each rank that has all of it
/// answers which call it has issued last, and begins only one more until it hears which call is the first of the new
/// plan. Rank 0 takes one that none may have begun.
class plan_changes final : public control_service {
public:
    /// @param calls whose numbers ranks speak of; must outlive this
    plan_changes(control_router& router, const engine& calls)
        : control_service(router, service::plan_change), calls_(calls) {}

    /// On rank 0: true if a plan may be proposed.
    bool is_idle() const noexcept { return sending_.text.empty() && answers_.empty() && !first_; }
    /// On rank 0: proposes a plan. Must be idle.
    void propose(std::string text);
    /// On rank 0: sends some more of the plan that is proposed.
    void look();

    /// Returns true if calls are about to change to another plan. If not, the next one may begin.
    bool is_under_way() const noexcept { return last_.has_value(); }
    /// Returns true if the next call may begin: the plan that it runs by is known.
    bool may_begin() noexcept;
    /// Returns the plan that the next call and later ones run by, where that is another one, once.
    std::optional<std::string> due();
    /// Returns the call from which on the plan runs that due() returned last; 0: none.
    std::uint64_t changed_at() const noexcept { return changed_at_; }
    /// Returns how long ago may_begin() first said no; 0: it does not.
    std::chrono::duration<double> age() const noexcept {
        return since_ == clock::time_point{} ? clock::duration{} : clock::now() - since_;
    }
    /// Adds what a call waits for that may not begin.
    void add_waits(const std::vector<int>& callers_rank, waiting& all) const;
    /// The communicator ends: this rank begins no call any more, and reads no message of this service. @param says it
    /// to the others, who may wait for it before they make their last calls
    void end(bool announces) noexcept;

private:
    using clock = std::chrono::steady_clock;

    void receive(int from, const control_frame& f) override;
    void take_answer(int from, std::uint64_t issued);
    void take();

    const engine& calls_;
    // On rank 0.
    struct {
        std::string text{};
        std::size_t sent = 0;
    } sending_;
    std::map<int, std::uint64_t> answers_;  // on rank 0: by rank, the call that it has issued last
    // A plan on its way, as far as it has come.
    struct {
        std::string text{};
        std::size_t missing = 0;  // bytes
        bool is_here = false;     // and not answered yet
    } coming_;
    std::vector<std::string> known_;      // texts of plans that all ranks have, in the order in which they came
    std::string text_;                    // of the plan that calls change to next
    std::optional<std::uint64_t> last_;   // call that may begin before the first of the new plan is known
    std::optional<std::uint64_t> first_;  // call of the new plan
    std::uint64_t changed_at_ = 0;
    clock::time_point since_{};  // when a call could not begin; 0: none waits
    bool ended_ = false;
};

}  // namespace terrace::detail
