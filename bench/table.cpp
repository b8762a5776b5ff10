#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/version.hpp>

#include "base/units.hpp"
#include "bench/report.hpp"

namespace terrace::bench {

namespace {

constexpr std::string_view row_format =
    "{:>12} {:>11} {:>8} {:>4}  {:<13} {:>11} {:>11} {:>11} {:>11} {:>11} {:>9} {:>9} "
    "{:>7} {:>8} {}{:>7} {:>11} {:>7}  {}\n";

std::string microseconds(const row& r, double part) { return fmt::format("{:.2f}", quantile(r.times, part) * 1e6); }

std::string percent_text(std::optional<double> percent) { return percent ? fmt::format("{:.1f}", *percent) : "-"; }

std::string machine_text(const hierarchy& machine) {
    std::vector<std::string> levels;
    for (const level& l : machine.levels)
        levels.push_back(fmt::format("{} {} {}", l.name, to_string(l.medium), format_bandwidth(l.bandwidth)));
    return fmt::format("{} ({})", shape_text(machine.shape), fmt::join(levels, ", "));
}

std::string goodput_text(const conditions& c) {
    const yardstick& y = c.against;
    if (!y.has_goodput()) return "not stated: no ethernet between hosts, or ranks not placed by node";
    std::vector<std::string> rates;
    for (int l = 0; l < y.machine().depth(); ++l)
        if (const auto& measured = y.measured()[static_cast<std::size_t>(l)])
            rates.push_back(fmt::format("{} {:.1f} Mbit/s (measured {:.1f})",
                                        y.machine().levels[static_cast<std::size_t>(l)].name, y.goodput(l) / 125e3,
                                        *measured / 125e3));
    std::string text = fmt::format("the same at what TCP can carry: {}", fmt::join(rates, ", "));
    if (y.burst() > 0) text += fmt::format("; {} a link are free, so from 2 MiB on", format_bytes(y.burst()));
    return text;
}

std::string iterations_text(const settings& s) {
    if (s.iterations) return fmt::format("{} iterations a row", *s.iterations);
    return fmt::format("{} to {} iterations a row, as fit into a second", s.fewest, most_iterations);
}

std::string device_text(const conditions& c) {
    std::string text = c.device->description();
    if (c.device->sharers() > 1)
        text += fmt::format("; {} ranks share a device: results are right, times say little", c.device->sharers());
    if (c.asked.staging) text += "; buffers go through pinned memory of the host (nccl: not)";
    if (c.asked.graph) text += "; calls are replayed from graphs";
    return text;
}

std::string bus_text(const bus_rates& bus) {
    return fmt::format(
        "the same of copies between device and host: {:.2f} GB/s from it, {:.2f} to it, {:.2f} of both at "
        "once, slowest rank",
        bus.in / 1e9, bus.out / 1e9, bus.both / 1e9);
}

// Where buffers cross the bus.
std::string bus_column(const conditions& c, std::string_view text) {
    return c.against.bus() ? fmt::format("{:>7} ", text) : "";
}

std::string shape_column(const description& d) {
    if (d.chunk == 0) return d.shape;
    return fmt::format("{}; {} lane{}, {} chunks", d.shape, d.lanes, d.lanes == 1 ? "" : "s", format_bytes(d.chunk));
}

const row* find(std::span<const row> rows, std::int64_t bytes, std::string_view algorithm) {
    const auto found = std::find_if(rows.begin(), rows.end(),
                                    [&](const row& r) { return r.bytes == bytes && r.algorithm == algorithm; });
    return found == rows.end() ? nullptr : &*found;
}

}  // namespace

figures figures_of(const conditions& c, const row& r) {
    figures f;
    f.time = r.median();
    f.algbw = f.time > 0 ? static_cast<double>(r.bytes) / f.time / 1e9 : 0;
    f.busbw = f.algbw * bus_factor(r.what, c.ranks.size());
    f.percent_of_limit = c.against.percent_of_limit(r.what, r.bytes, f.time);
    f.percent_of_goodput = c.against.percent_of_goodput(r.what, r.bytes, f.time);
    if (r.how.crosses_bus) f.percent_of_bus = c.against.percent_of_bus(r.what, r.bytes, f.time);
    return f;
}

std::string header_text(const conditions& c) {
    std::string text;
    const auto line = [&](std::string_view key, const std::string& value) {
        text += fmt::format("# {:<10}{}\n", key, value);
    };
    line("bench", fmt::format("terrace-bench {}, {}", version(), c.date));
    line("plan", fmt::format("{}, {}, {}", c.chosen.name(), c.chosen.id(), c.asked.plan_file.string()));
    line("machine", machine_text(c.against.machine()));
    line("ranks",
         fmt::format("{} on {} host{}{}", c.ranks.size(), c.ranks.host_count(), c.ranks.host_count() == 1 ? "" : "s",
                     c.asked.place == options::placement::anywhere
                         ? ", placed anywhere: this may not be the machine of the plan"
                         : ""));
    line("mpi", c.ranks.library());
    if (c.device != nullptr) line("device", device_text(c));
    line("method",
         fmt::format(
             "{}{} after {} to warm up; algorithms alternate{}", iterations_text(c.asked),
             c.asked.async == 1 ? "" : fmt::format(" of {} calls at once (mpi: one after the other),", c.asked.async),
             c.asked.warmup, c.asked.windows ? "; Terrace's buffers in windows" : ""));
    if (c.device != nullptr) line("clock", "CUDA's events in the stream of the calls");
    line("time_us", "median over iterations of the maximum over ranks, beside its percentiles");
    line("algbw", "in GB/s, as busbw; both as in nccl-tests");
    line("ratio", fmt::format("median, and middle half, of this time over that of {}, iteration by iteration",
                              c.asked.reference));
    line("%limit", "least time that the link rates in the plan allow point-to-point messages, over time");
    line("%goodput", goodput_text(c));
    if (c.against.bus()) line("%bus", bus_text(*c.against.bus()));
    line("#wrong", c.asked.check ? "elements that are not exactly the result, over all ranks" : "not checked");
    return text;
}

std::string heading_text(const conditions& c, collective what, std::span<const absence> absent) {
    std::string text =
        fmt::format("#\n# {}{}\n", to_string(what), has_root(what) ? fmt::format(", root {}", c.asked.root) : "");
    for (const absence& a : absent)
        if (a.what == what) text += fmt::format("# without {}: {}\n", a.algorithm, a.why);
    return text + fmt::format(fmt::runtime(row_format), "bytes", "count", "type", "op", "algorithm", "time_us", "p25",
                              "p75", "p95", "p99", "algbw", "busbw", "%limit", "%goodput", bus_column(c, "%bus"),
                              "ratio", "middle half", "#wrong", "shape");
}

std::string rows_text(const conditions& c, std::span<const row> rows) {
    std::string text;
    for (const row& r : rows) {
        const figures f = figures_of(c, r);
        text += fmt::format(
            fmt::runtime(row_format), r.bytes, r.count, to_string(c.asked.type),
            goes_up(r.what) ? to_string(c.asked.op) : "-", r.algorithm, microseconds(r, 0.5), microseconds(r, 0.25),
            microseconds(r, 0.75), microseconds(r, 0.95), microseconds(r, 0.99), fmt::format("{:.4f}", f.algbw),
            fmt::format("{:.4f}", f.busbw), percent_text(f.percent_of_limit), percent_text(f.percent_of_goodput),
            bus_column(c, percent_text(f.percent_of_bus)),
            r.ratios.empty() ? "-" : fmt::format("{:.3f}", quantile(r.ratios, 0.5)),
            r.ratios.empty() ? "-" : fmt::format("{:.3f}-{:.3f}", quantile(r.ratios, 0.25), quantile(r.ratios, 0.75)),
            r.wrong ? std::to_string(*r.wrong) : "-", shape_column(r.how));
    }
    constexpr double worth_saying = 1;  // per cent
    if (!rows.empty() && rows.front().percent_stolen.value_or(0) > worth_saying)
        text += fmt::format("# meanwhile the hypervisor took {:.1f} % of a host's processor time from it\n",
                            *rows.front().percent_stolen);
    if (rows.size() > 1) text += '\n';
    return text;
}

std::string verdict_text(const conditions& c, collective what, std::span<const row> rows) {
    std::int64_t wrong = 0;
    for (const row& r : rows) wrong += r.wrong.value_or(0);
    std::string text;
    if (!c.asked.check) text += fmt::format("# {}: results were not checked.\n", to_string(what));
    else if (wrong > 0) text += fmt::format("# {}: {} WRONG ELEMENTS, see #wrong.\n", to_string(what), wrong);
    else text += fmt::format("# {}: all results are exact.\n", to_string(what));

    const std::int64_t largest = rows.empty() ? 0 : rows.back().bytes;
    const row* ours = find(rows, largest, "hierarchical");
    if (!ours) return text;
    const figures f = figures_of(c, *ours);
    text += fmt::format("# At {} hierarchical takes {}", format_bytes(largest), format_duration(f.time));
    const bool on_its_machine = c.asked.place == options::placement::by_node;
    if (on_its_machine && f.percent_of_limit) text += fmt::format(", {:.1f} % of the limit", *f.percent_of_limit);
    if (f.percent_of_goodput) text += fmt::format(", {:.1f} % of goodput", *f.percent_of_goodput);
    if (f.percent_of_bus) text += fmt::format(", {:.1f} % of the bus", *f.percent_of_bus);
    text += ".\n";
    for (const std::string_view other : {"flat-ring", "two-level", "mpi", "nccl"})
        if (const row* r = find(rows, largest, other))
            text += fmt::format("#   {:.2f} times as fast as {} ({})\n", r->median() / f.time, other,
                                format_duration(r->median()));
    return text;
}

}  // namespace terrace::bench
