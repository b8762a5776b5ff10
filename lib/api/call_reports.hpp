#pragma once

#include <memory>

#include <terrace/options.hpp>

#include "api/link_watch.hpp"
#include "api/rank_numbers.hpp"
#include "calls/call_times.hpp"
#include "executor/engine.hpp"
#include "plan/plan_data.hpp"
#include "statistics/statistics_file.hpp"

namespace terrace::detail {

/// The reports of a communicator's calls that its options request: statistics, metrics, profiles and traces.
class call_reports {
public:
    /// All arguments must outlive this object.
    call_reports(const plan_data& p, const options& o, const rank_numbers& ranks)
        : plan_(p), options_(o), ranks_(ranks), events_(!o.trace_file.empty(), ranks.own) {}

    /// Starts to record times of calls and to watch links, if requested. @param control must outlive this object
    /// @param plan_rank rank of this process in the plan
    void begin(control_plane& control, int plan_rank);
    /// Sends and receives reports about links, and judges links after each window.
    void look_at_links(engine& calls) {
        if (links_ && links_->has_new_window()) links_->judge(counted(calls));
    }
    /// Ends the watch of links. Collective.
    void end_links() {
        if (links_) links_->end();
    }
    recorder& events() noexcept { return events_; }
    /// Returns the recorder of call times; null if no times are recorded.
    call_times* times() noexcept { return times_.get(); }

    statistics counted(engine& calls) const { return count(calls, ranks_.callers); }
    /// Returns the same with rank numbers of the whole job, and the names of communicator, host and plan.
    rank_statistics counted_in_job(engine& calls) const;
    void write_statistics(engine& calls) const {
        if (!options_.statistics_directory.empty())
            detail::write_statistics(options_.statistics_directory, counted_in_job(calls));
    }
    /// @param ends true: the communicator ends
    void write_metrics(engine& calls, bool ends) const;
    /// Writes all files when the communicator ends. @param failed true: calls have failed, so no profile is written
    void write_last(engine& calls, bool failed) const;

private:
    statistics count(engine& calls, const std::vector<int>& number_of_rank) const;

    const plan_data& plan_;
    const options& options_;
    const rank_numbers& ranks_;
    recorder events_;
    std::unique_ptr<call_times> times_;
    std::unique_ptr<link_watch> links_;
};

}  // namespace terrace::detail
