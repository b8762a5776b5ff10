#include "api/wait_monitor.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "api/dump.hpp"

namespace terrace::detail {

wait_monitor::wait_monitor(const subject& of, const options& o) : of_(of), options_(o) {
    if (!options_.dump_file.empty()) dumps_seen_ = watch_for_dumps();
}

void wait_monitor::look_around() {
    if (of_.check.listens()) of_.check.listen();
    watch();
}

void wait_monitor::watch() {
    if (!options_.dump_file.empty() && dumps_seen_ != dumps_asked_for()) {
        dumps_seen_ = dumps_asked_for();
        dump();
    }
    if (options_.timeout.count() > 0 && std::max(of_.check.age(), of_.calls.age()) > options_.timeout) time_out();
}

waiting wait_monitor::waits() const {
    waiting all;
    of_.check.add_waits(all);
    of_.calls.add_waits(of_.callers_rank, all);
    return all;
}

void wait_monitor::time_out() const {
    if (!options_.dump_file.empty()) dump();
    throw timeout_error(timeout_message(options_.timeout.count(), waits()));
}

void wait_monitor::dump() const {
    try {
        write_dump(options_.dump_file, of_.rank, of_.events.dump(waits().lines));
    } catch (const std::exception& e) {
        if (options_.log) options_.log(log_level::warn, e.what());
    }
}

std::string timeout_message(double seconds, const waiting& for_what) {
    constexpr std::size_t most_lines = 3;
    const auto& [lines, ranks] = for_what;
    const std::span shown = std::span(lines).first(std::min(lines.size(), most_lines));
    const std::size_t more = lines.size() - shown.size();
    return fmt::format("timed out after {} s (options::timeout), waiting for {} {}: {}{}", seconds,
                       ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "), fmt::join(shown, "; "),
                       more > 0 ? fmt::format("; and {} more", more) : "");
}

}  // namespace terrace::detail
