#pragma once

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
/// of its own, for the collectives that have been called.
class plan_follower {
public:
    /// All must outlive this.
    plan_follower(plan_changes& changes, const plan_data& p, const options& o)
        : changes_(changes), plan_(p), options_(o) {}

    /// A link has become slow, or is so no longer. @param why the plan changes, in words
    void note(const slow_links::finding& f, const std::string& why);
    /// Goes on with what is to be done: call this again and again. Returns true while calls change to another plan, and
    /// once after it. @param so_far calls
    bool look(const link_rows& rows, const statistics& so_far);
    /// Returns when and why calls changed so far.
    const std::vector<changed_plan>& done() const noexcept { return done_; }

private:
    using percents = std::map<int, int>;  // of what links carry, by link: those that are slow

    hierarchy machine(const link_rows& rows) const;
    void make_plan(const link_rows& rows, const statistics& so_far);
    void take_plan();

    plan_changes& changes_;
    const plan_data& plan_;
    const options& options_;
    percents slow_, running_, proposed_;
    std::map<percents, std::string> plans_;  // texts
    struct {
        percents slow{};
        std::future<std::string> text{};
    } making_;
    std::string why_;  // the next change
    std::vector<changed_plan> done_;
};

}  // namespace terrace::detail
