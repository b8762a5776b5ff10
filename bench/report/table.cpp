#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/version.hpp>

#include "base/units.hpp"
#include "bench/report/report.hpp"

namespace terrace::detail::bench {

namespace {

constexpr std::string_view row_format = "{:1}{:>11}  {:<13} {:>11} {:>9} {:>7} {:>8} {}{:>7} {:>6}\n";

constexpr double worth_saying = 1;  // [%]

std::string ratio_text(const row& r) { return r.ratios.empty() ? "-" : fmt::format("{:.3f}", quantile(r.ratios, 0.5)); }

std::string percent_text(std::optional<double> percent) { return percent ? fmt::format("{:.1f}", *percent) : "-"; }

std::string machine_text(const hierarchy& machine) {
    std::vector<std::string> levels;
    for (const level& l : machine.levels)
        levels.push_back(fmt::format("{} {} {}", l.name, to_string(l.medium), format_bandwidth(l.bandwidth)));
    return fmt::format("{} ({})", shape_text(machine.shape), fmt::join(levels, ", "));
}

std::string goodput_text(const conditions& c) {
    const link_limits& y = c.against;
    if (!y.has_goodput()) return "not stated: no ethernet between hosts, or ranks not placed by node";
    std::vector<std::string> rates;
    for (int l = 0; l < y.machine().depth(); ++l)
        if (const auto& measured = y.measured()[static_cast<std::size_t>(l)])
            rates.push_back(fmt::format(
                "{} {:.1f} Mbit/s ({})", y.machine().levels[static_cast<std::size_t>(l)].name, y.goodput(l) / 125e3,
                *measured > 0 ? fmt::format("measured {:.1f}", *measured / 125e3) : "what headers leave of it"));
    return fmt::format("the same at what TCP can carry: {}", fmt::join(rates, ", "));
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

// Returns a cell of the bus column; nothing if no buffers cross the bus.
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

// Returns the row with the least median; null if there is nothing to compare.
const row* best_of(std::span<const row> rows) {
    if (rows.size() < 2) return nullptr;
    return &*std::ranges::min_element(rows, {}, &row::median);
}

// Summarises a size: the fastest algorithm, its lead, and the stages that the plan runs.
std::string size_summary(std::span<const row> rows, const row& best) {
    const row* next = nullptr;
    for (const row& r : rows)
        if (&r != &best && (next == nullptr || r.median() < next->median())) next = &r;
    std::string text = fmt::format("# {}: {} is fastest, {} takes {:.2f} times as long", format_bytes(best.bytes),
                                   best.algorithm, next->algorithm, next->median() / best.median());
    if (const row* ours = find(rows, best.bytes, "hierarchical"))
        text += fmt::format(";\n#   the plan runs {}", shape_column(ours->how));
    return text + "\n";
}

}  // namespace

figures figures_of(const conditions& c, const row& r) {
    figures f;
    f.time = r.median();
    f.algbw = f.time > 0 ? static_cast<double>(r.bytes) / f.time / 1e9 : 0;
    f.busbw = f.algbw * bus_factor(r.what, c.ranks.size());
    // With other placements, links are not those of the plan.
    if (c.asked.place == options::placement::by_node)
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
    line("mpi", c.ranks.has_mpi() ? c.ranks.library() : "none");
    if (c.asked.ucx) line("transport", "Terrace's messages go over UCX");
    if (c.device != nullptr) line("device", device_text(c));
    line("method", fmt::format("{}{} after {} to warm up; algorithms alternate{}", iterations_text(c.asked),
                               c.asked.async == 1 ? ""
                                                  : fmt::format(" of {} calls {},", c.asked.async,
                                                                c.asked.in_turn ? "in turn" : "at once (mpi: in turn)"),
                               c.asked.warmup, c.asked.windows ? "; Terrace's buffers in windows" : ""));
    if (c.device != nullptr) line("clock", "CUDA's events in the stream of the calls");
    line("time_us", "median over iterations of the maximum over ranks");
    line("busbw", "in GB/s, as in nccl-tests");
    line("ratio", fmt::format("median of this time over that of {}, iteration by iteration", c.asked.reference));
    line("*", "the least median of a size");
    line("%limit", c.asked.place == options::placement::by_node
                       ? "least time that the link rates in the plan allow point-to-point messages, over time"
                       : "not stated: ranks are placed anywhere, so that links are not the plan's");
    line("%goodput", goodput_text(c));
    if (c.against.bus()) line("%bus", bus_text(*c.against.bus()));
    line("#wrong", c.asked.check ? "elements that are not exactly the result, over all ranks" : "not checked");
    return text;
}

std::string heading_text(const conditions& c, collective what, std::span<const absence> absent) {
    std::string text = fmt::format("#\n# {}{}\n", c.asked.function_of(what),
                                   row_of(what).has_root() ? fmt::format(", root {}", c.asked.root) : "");
    for (const absence& a : absent)
        if (a.what == what) text += fmt::format("# without {}: {}\n", a.algorithm, a.why);
    return text + fmt::format(row_format, "", "bytes", "algorithm", "time_us", "busbw", "%limit", "%goodput",
                              bus_column(c, "%bus"), "ratio", "#wrong");
}

std::string rows_text(const conditions& c, std::span<const row> rows) {
    const row* best = best_of(rows);
    std::string text;
    bool over = false;
    for (const row& r : rows) {
        const figures f = figures_of(c, r);
        over |= f.percent_of_limit.value_or(0) > 100;
        text += fmt::format(
            row_format, &r == best ? "*" : "", r.bytes, r.algorithm, fmt::format("{:.2f}", r.median() * 1e6),
            fmt::format("{:.4f}", f.busbw), percent_text(f.percent_of_limit), percent_text(f.percent_of_goodput),
            bus_column(c, percent_text(f.percent_of_bus)), ratio_text(r), r.wrong ? std::to_string(*r.wrong) : "-");
    }
    if (best != nullptr) text += size_summary(rows, *best);
    if (over) text += "# over 100 %limit: links carry more than the plan says; terrace-bench --links measures\n";
    if (!rows.empty() && rows.front().percent_steal_time.value_or(0) > worth_saying)
        text += fmt::format("# steal time: the hypervisor took {:.1f} % of a host's processor time meanwhile\n",
                            *rows.front().percent_steal_time);
    if (rows.size() > 1) text += '\n';
    return text;
}

std::string verdict_text(const conditions& c, collective what, std::span<const row> rows) {
    std::int64_t wrong = 0;
    for (const row& r : rows) wrong += r.wrong.value_or(0);
    std::string text;
    const std::string name = c.asked.function_of(what);
    if (!c.asked.check) text += fmt::format("# {}: results were not checked.\n", name);
    else if (wrong > 0) text += fmt::format("# {}: {} WRONG ELEMENTS, see #wrong.\n", name, wrong);
    else text += fmt::format("# {}: all results are exact.\n", name);

    const std::int64_t largest = rows.empty() ? 0 : rows.back().bytes;
    const row* ours = find(rows, largest, "hierarchical");
    if (!ours) return text;
    const figures f = figures_of(c, *ours);
    text += fmt::format("# At {} hierarchical takes {}", format_bytes(largest), format_duration(f.time));
    if (f.percent_of_limit) text += fmt::format(", {:.1f} % of the limit", *f.percent_of_limit);
    if (f.percent_of_goodput) text += fmt::format(", {:.1f} % of goodput", *f.percent_of_goodput);
    if (f.percent_of_bus) text += fmt::format(", {:.1f} % of the bus", *f.percent_of_bus);
    text += ".\n";
    for (const std::string_view other :
         {"flat-ring", "flat-rings", "two-level", "two-level-nics", "central", "direct", "mpi", "nccl"})
        if (const row* r = find(rows, largest, other))
            text += fmt::format("#   {} takes {:.3f} times as long ({})\n", other,
                                quantile(paired_ratios(r->times, ours->times), 0.5), format_duration(r->median()));
    return text;
}

}  // namespace terrace::detail::bench
