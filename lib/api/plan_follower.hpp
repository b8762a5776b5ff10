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

/// Returns the most lanes of any rule of a communicator's plans, including plans that a plan_follower makes later.
int most_lanes(const plan_data& p, const options& o) noexcept;

/// Changes all ranks to a plan for the machine as it is now. Works on rank 0 of the plan, and makes the new plan in a
/// thread of its own, for the collectives called so far. The new plan may use the slow link too little to show that the
/// link has recovered. So the first plan runs for a short time at intervals: a trial.
class plan_follower {
public:
    /// All references must outlive this object. @param every one of this many windows of messages is judged
    plan_follower(plan_changes& changes, const plan_data& p, const options& o, std::uint32_t every)
        : changes_(changes), plan_(p), options_(o), trial_{.least = 2 * every * message_times::window} {}

    /// Records that a link has become slow or has recovered. @param why reason for a change of plan, in words
    void note(const slow_links::finding& f, const std::string& why);
    /// Makes progress on changes of plan; call it repeatedly. Returns true while calls change to another plan, and once
    /// after that, unless it is a trial. @param so_far calls   @param hurry a link may have recovered
    bool look(const link_rows& rows, const statistics& so_far, bool hurry);
    /// Returns the changes of plan so far, with their reasons.
    const std::vector<changed_plan>& done() const noexcept { return done_; }

private:
    using clock = std::chrono::steady_clock;
    using percents = std::map<int, int>;  // by link: present rate of a slow link, in percent of the rate before

    hierarchy machine(const link_rows& rows) const;
    void make_plan(const link_rows& rows, const statistics& so_far);
    void change(const link_rows& rows, const statistics& so_far, const percents& to);
    const percents& wanted(clock::time_point now, bool hurry);

    plan_changes& changes_;
    const plan_data& plan_;
    const options& options_;
    percents slow_, proposed_;
    percents announced_;  // slow links at the last change in done()
    clock::time_point slow_since_{};
    struct {
        percents slow{};
        clock::time_point since{};
    } running_;
    struct {
        clock::duration least{};  // time of two judged windows
        bool is_on = false;
        clock::time_point since{};
        clock::duration took{least};  // time of the last trial, including the changes of plan
    } trial_;
    std::map<percents, std::string> plans_;  // texts of plans, by slow links
    struct {
        percents slow{};
        std::future<std::string> text{};
    } making_;
    std::string why_;  // reason of the next change
    std::vector<changed_plan> done_;
};

}  // namespace terrace::detail
