#include "api/wait_monitor.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "base/quiet_task.hpp"
#include "base/text_file.hpp"
#include "calls/failure_state.hpp"
#include "transport/team.hpp"

namespace terrace::detail {

namespace {

std::atomic<unsigned> asked_for{0};  // number of requested dumps

void ask(int) { ++asked_for; }

}  // namespace

wait_monitor::wait_monitor(const subject& of, const options& o) : of_(of), options_(o), dumps_seen_(asked_for) {
    if (!options_.dump_file.empty()) answer_signal(SIGUSR1, ask);
}

void wait_monitor::watch() {
    const unsigned asked = asked_for;
    if (!options_.dump_file.empty() && std::exchange(dumps_seen_, asked) != asked) dump();
    of_.running.follow_waits();
    of_.reports.look_at_links(of_.running);
    if (!options_.metrics_file.empty()) keep_metrics();
    const std::chrono::duration<double> waited =
        std::max({of_.control.call_order.age(), of_.running.age(), of_.control.messages.operations().age(),
                  of_.groups.age(), of_.control.plan_change.age()});
    if (of_.control.membership.has_work(waited)) look_for_failures();
    if (of_.control.call_order.listens() && !of_.running.idle()) send_stamps();
    if (of_.control.wait_report.has_work(waited)) {
        of_.control.router.receive();
        if (const waiting all = waits(); !all.ranks.empty())
            of_.control.wait_report.look(waited, position_of(*all.ranks.begin(), of_.ranks.callers));
    }
    if (options_.timeout.count() > 0 && waited > options_.timeout) time_out();
}

void wait_monitor::keep_metrics() {
    const auto now = std::chrono::steady_clock::now();
    if (now < metrics_due_ || of_.running.idle()) return;
    metrics_due_ = now + std::chrono::seconds(5);
    or_warn(options_, "", [&] { of_.reports.write_metrics(of_.running, false); });
}

void wait_monitor::send_stamps() const {
    if (!of_.control.call_order.stamps().is_time(of_.running.age())) return;
    waiting all;
    of_.running.add_waits(of_.ranks.callers, all);
    for (std::size_t r = 0; r < of_.ranks.callers.size(); ++r)
        if (all.ranks.contains(of_.ranks.callers[r]))
            of_.control.call_order.send_stamp(of_.running.stamp_of_oldest(), static_cast<int>(r));
}

waiting wait_monitor::waits() const {
    waiting all;
    of_.control.call_order.add_waits(all);
    of_.control.messages.operations().add_waits(all);
    of_.running.add_waits(of_.ranks.callers, all);
    of_.groups.add_waits(all);
    of_.control.plan_change.add_waits(of_.ranks.callers, all);
    return all;
}

void wait_monitor::look_for_failures() const {
    of_.control.router.receive();
    const auto awaits = [this](int rank) { return waits().ranks.contains(of_.ranks.callers[at(rank)]); };
    if (!of_.control.membership.look(awaits)) return;
    if (!options_.dump_file.empty()) dump();
    of_.control.membership.raise(waits().lines);
}

void wait_monitor::time_out() const {
    if (!options_.dump_file.empty()) dump();
    const waiting all = waits();
    if (!all.ranks.empty()) of_.control.wait_report.give_up(position_of(*all.ranks.begin(), of_.ranks.callers));
    throw timeout_error(timeout_message(options_.timeout.count(), all, end_of_chain(),
                                        of_.control.membership.sees_all(), of_.ranks.world));
}

void wait_monitor::dump() const {
    or_warn(options_, "", [&] {
        std::vector<std::string> lines = waits().lines;
        if (const int end = end_of_chain(); end >= 0)
            lines.push_back(fmt::format("in the end: rank {}, which does not answer", end));
        write_atomically(fmt::format("{}.{}.json", options_.dump_file.string(), of_.ranks.own),
                         of_.reports.events().dump(lines));
        of_.reports.write_statistics(of_.running);
    });
}

std::string timeout_message(double seconds, const waiting& for_what, int end, bool watched,
                            std::span<const int> world_ranks) {
    constexpr std::size_t most_lines = 3;
    const auto& [lines, ranks] = for_what;
    const std::span shown = std::span(lines).first(std::min(lines.size(), most_lines));
    const std::size_t more = lines.size() - shown.size();
    std::string last;
    if (end >= 0) {
        if (ranks != std::set{end}) last = ", in the end for " + ranks_named(std::array{end}, world_ranks);
        last += watched ? ", which has not made the call" : ", which does not answer";
    }
    const std::vector<int> all(ranks.begin(), ranks.end());
    const std::string whom = all.empty() ? "" : ", waiting for " + ranks_named(all, world_ranks);
    return fmt::format("timed out after {} s (options::timeout){}{}: {}{}", seconds, whom, last, fmt::join(shown, "; "),
                       more > 0 ? fmt::format("; and {} more", more) : "");
}

}  // namespace terrace::detail
