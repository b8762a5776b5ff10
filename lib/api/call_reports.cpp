#include "api/call_reports.hpp"

#include "base/hosts.hpp"
#include "plan/limit.hpp"
#include "statistics/metrics_file.hpp"

namespace terrace::detail {

// A profile must show the plan's own rules and bytes. Reproducible calls run other rules; rounding changes the bytes.
void call_reports::begin(control_plane& control, int plan_rank) {
    if (!options_.profile_directory.empty() && plan_rank == 0 && !options_.reproducible && !options_.rounds_on_wire)
        times_ = std::make_unique<call_times>();
    if (options_.adapt != options::adapting::off)
        links_ = std::make_unique<link_watch>(control, events_, plan_, options_, ranks_, plan_rank);
}

statistics call_reports::count(engine& calls, const std::vector<int>& number_of_rank) const {
    statistics s = calls.counts().all(number_of_rank, events_.micros_per_tick() * 1e-6);
    for (statistics::calls_of_size& c : s.calls)
        if (const std::optional<collective> what = parse_collective(c.call); what && c.calls > 0)
            c.limit = static_cast<double>(c.calls) * limit(plan_.machine, c.bytes / c.calls, *what);
    return s;
}

rank_statistics call_reports::counted_in_job(engine& calls) const {
    return {ranks_.communicator,
            host_name(),
            plan_.name,
            ranks_.world[static_cast<std::size_t>(ranks_.own)],
            static_cast<int>(ranks_.callers.size()),
            count(calls, ranks_.world_by_plan),
            links_ ? links_->changes() : std::vector<changed_plan>{}};
}

void call_reports::write_metrics(engine& calls, bool ends) const {
    if (!options_.metrics_file.empty()) renew_metrics(options_.metrics_file, counted_in_job(calls), ends);
}

void call_reports::write_last(engine& calls, bool failed) const {
    if (!options_.trace_file.empty()) events_.write_trace(options_.trace_file, plan_.name);
    write_statistics(calls);
    write_metrics(calls, true);
    if (!times_ || failed) return;
    if (const std::vector<profiled_call> took = times_->quartiles(); !took.empty())
        write_profile(options_.profile_directory, plan_, took);
}

}  // namespace terrace::detail
