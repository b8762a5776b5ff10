#pragma once

#include <chrono>
#include <future>
#include <map>
#include <string>
#include <vector>

#include <terrace/options.hpp>
#include <terrace/statistics.hpp>

#include "control/plan_change/plan_changes.hpp"
#include "machine/link_rows.hpp"
#include "plan/plan_data.hpp"
#include "statistics/slow_links.hpp"
#include "statistics/statistics_file.hpp"

namespace terrace::detail {

/// Returns how many lanes the rules of a communicator's plans may have, those of plans that follow as well.
int most_lanes(const plan_data& p, const options& o) noexcept;

/// Lets all ranks change to a plan for the machine as it is now: on rank 0 of the plan. It makes the plan in a thread
/// of its own, for the collectives that have been called. Such a plan may use the slow link so little that nobody sees
/// that the link is back, so the first plan runs for a moment again and again: a trial.
class plan_follower {
public:
    /// All must outlive this. @param every so manieth window of messages is judged
    plan_follower(plan_changes& changes, const plan_data& p, const options& o, std::uint32_t every)
        : changes_(changes), plan_(p), options_(o), trial_{.least = 2 * every * message_times::window} {}

    /// A link has become slow, or is so no longer. @param why the plan changes, in words
    void note(const slow_links::finding& f, const std::string& why);
    /// Goes on with what is to be done: call this again and again. Returns true while calls change to another plan, and
    /// once after it, unless it is a trial. @param so_far calls   @param hurry a link may be back
    bool look(const link_rows& rows, const statistics& so_far, bool hurry);
    /// Returns when and why calls changed so far.
    const std::vector<changed_plan>& done() const noexcept { return done_; }

private:
    using clock = std::chrono::steady_clock;
    using percents = std::map<int, int>;  // of what links carry, by link: those that are slow

    hierarchy machine(const link_rows& rows) const;
    void make_plan(const link_rows& rows, const statistics& so_far);
    void change(const link_rows& rows, const statistics& so_far, const percents& to);
    const percents& wanted(clock::time_point now, bool hurry);

    plan_changes& changes_;
    const plan_data& plan_;
    const options& options_;
    percents slow_, proposed_;
    percents said_;  // of the last change that done() has
    clock::time_point slow_since_{};
    struct {
        percents slow{};
        clock::time_point since{};
    } running_;
    struct {
        clock::duration least{};  // two windows that are judged
        bool is_on = false;
        clock::time_point since{};
        clock::duration took{least};  // the last one, with the changes of plan
    } trial_;
    std::map<percents, std::string> plans_;  // texts
    struct {
        percents slow{};
        std::future<std::string> text{};
    } making_;
    std::string why_;  // the next change
    std::vector<changed_plan> done_;
};

}  // namespace terrace::detail
