#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <terrace/options.hpp>
#include <terrace/statistics.hpp>

#include "api/plan_follower.hpp"
#include "api/rank_numbers.hpp"
#include "control/control_plane.hpp"
#include "machine/link_rows.hpp"
#include "plan/plan_data.hpp"
#include "statistics/slow_links.hpp"

namespace terrace::detail {

/// Logs which links have become slower, and the cost for calls. Works on rank 0 of the plan, to which all ranks report
/// when their messages began and were complete.
class link_watch {
public:
    /// All references must outlive this object. @param rank rank of this process in the plan
    link_watch(control_plane& control, recorder& events, const plan_data& p, const options& o,
               const rank_numbers& ranks, int rank);

    /// Exchanges reports; call it repeatedly while a rank waits. Returns true if there is a window to judge.
    bool has_new_window();
    /// Judges links and logs changes. @param s statistics of the calls on this rank so far
    void judge(const statistics& s);
    /// Returns the changes to another plan so far, with their reasons.
    std::vector<changed_plan> changes() const { return follower_ ? follower_->done() : std::vector<changed_plan>{}; }
    /// Ends the reports between ranks; waits a moment for those in flight. Collective.
    void end();

private:
    using clock = message_times::clock;
    struct calls_so_far {
        std::uint32_t window = 0;
        double calls = 0, seconds = 0;
    };

    void begin();
    std::string text_of(const slow_links::finding& f) const;
    std::string name_of(int link) const;
    std::string cost(const slow_links::finding& f) const;

    control_plane& control_;
    const plan_data& plan_;
    const options& options_;
    const rank_numbers& ranks_;
    struct {
        bool judges = false;  // this rank judges links
        clock::time_point since = clock::now();
        std::uint32_t window = 0, forgets_until = 0;
    } own_;
    link_rows rows_;
    std::unique_ptr<slow_links> links_;
    std::deque<calls_so_far> calls_;
    std::unique_ptr<plan_follower> follower_;  // null: the plan does not change
};

}  // namespace terrace::detail
