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

/// What is said of a communicator's calls: statistics, metrics, profiles and traces, as its options ask for them.
class call_reports {
public:
    /// All must outlive this.
    call_reports(const plan_data& p, const options& o, const rank_numbers& ranks)
        : plan_(p), options_(o), ranks_(ranks), events_(!o.trace_file.empty(), ranks.own) {}

    /// Begins to note what calls took, and to watch links, where that is asked for. @param control must outlive this
    /// @param plan_rank of this process
    void begin(control_plane& control, int plan_rank);
    /// Sends and reads what ranks tell one another of links.
    void look_at_links(engine& calls) {
        if (links_ && links_->has_new_window()) links_->judge(counted(calls));
    }
    /// Collective.
    void end_links() {
        if (links_) links_->end();
    }
    recorder& events() noexcept { return events_; }
    /// Returns what notes how long calls took; null where nobody asks.
    call_times* times() noexcept { return times_.get(); }

    statistics counted(engine& calls) const { return count(calls, ranks_.callers); }
    /// Returns the same with ranks of the whole job, and what tells this rank from others.
    rank_statistics counted_in_job(engine& calls) const;
    void write_statistics(engine& calls) const {
        if (!options_.statistics_directory.empty())
            detail::write_statistics(options_.statistics_directory, counted_in_job(calls));
    }
    /// @param ends the communicator ends
    void write_metrics(engine& calls, bool ends) const;
    /// Writes all files of a communicator that ends. @param failed its calls say nothing for a profile
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
