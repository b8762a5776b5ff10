#include "bench/measure/links.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/index.hpp"
#include "base/units.hpp"
#include "base/wire.hpp"
#include "bench/measure/flow.hpp"
#include "bench/measure/mpi_world.hpp"
#include "bench/measure/partners.hpp"
#include "bench/measure/processors.hpp"
#include "bench/report/figures.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "machine/rates.hpp"
#include "tools/common/table.hpp"

namespace terrace::detail::bench {

namespace {

using steady = std::chrono::steady_clock;

constexpr int overhead_message = 8;  // [bytes]
constexpr int round_trips = 200;
constexpr int messages_for_overhead = 1000;
constexpr int fewest_timed = 16;
constexpr double time_of_run = 0.25;  // [s]; there are four runs
constexpr int most_repeats = 2;
constexpr double same_rate = 0.97;  // least ratio of two rates that differ only by noise

class link_meter {
public:
    // @param rates the file's rates of the links of the children [B/s]
    link_meter(const world& w, const partners& p, std::vector<double> rates)
        : world_(w), p_(p), rates_(std::move(rates)), to_(p.to[at(w.rank())]), from_(p.from[at(w.rank())]) {}

    // Returns the rate that arrives at a child while all streams run, as a fraction of its rate in the file: the
    // largest of all children. No stream keeps the pace of another stream of its rank, which may be slower over unequal
    // links.
    double bandwidth() const {
        const double guess = world_.maximum(timed(wire_segment, fewest_timed));
        const double fit = time_of_run / std::max(guess, 1e-9);
        const int messages = static_cast<int>(std::clamp(fit, fewest_timed * 1.0, 4000.0));
        const std::vector<double> times = streamed(wire_segment, messages);
        const double end = -world_.maximum(times.empty() ? std::numeric_limits<double>::lowest() : -times.back());
        return largest_part(world_, p_, rates_, arrival_rate(times, end) * static_cast<double>(wire_segment));
    }

    double overhead() const { return world_.maximum(timed(overhead_message, messages_for_overhead)); }

    double half_round_trip() const {
        wait_asleep(world_);
        std::vector<double> times;
        std::array<std::byte, overhead_message> data{};
        const bool first = to_ > world_.rank();
        for (int i = 0; i < round_trips && to_ != no_rank; ++i) {
            const auto begin = steady::now();
            for (const bool sends : {first, !first}) {
                if (sends)
                    check(MPI_Send(data.data(), overhead_message, MPI_BYTE, to_, 0, comm_of(world_)), "MPI_Send");
                else
                    check(MPI_Recv(data.data(), overhead_message, MPI_BYTE, to_, 0, comm_of(world_), MPI_STATUS_IGNORE),
                          "MPI_Recv");
            }
            times.push_back(std::chrono::duration<double>(steady::now() - begin).count() / 2);
        }
        wait_asleep(world_);
        return world_.maximum(times.empty() || !first ? 0 : quantile(times, 0.5));
    }

private:
    // Returns the result of `measure` on ranks that take part, while all others sleep.
    template <class Measure>
    auto alone(std::size_t bytes, int messages, Measure measure) const {
        wait_asleep(world_);
        decltype(measure(world_, flow{})) found{};
        if (to_ != no_rank || from_ != no_rank)
            found = measure(world_, flow{to_, from_, static_cast<int>(bytes), messages});
        wait_asleep(world_);
        return found;
    }
    double timed(std::size_t bytes, int messages) const { return alone(bytes, messages, time_of_message); }
    std::vector<double> streamed(std::size_t bytes, int messages) const {
        return alone(bytes, messages, [](const world& w, const flow& f) { return arrivals(w, f, pace::of_sends); });
    }

    const world& world_;
    const partners& p_;
    std::vector<double> rates_;
    int to_, from_;
};

}  // namespace

measured_machine measure_machine(const world& w, const hierarchy& machine, const std::vector<int>& ranks,
                                 progress& shown) {
    measured_machine m;
    for (int l = 0; l < machine.depth(); ++l) {
        const level& link = machine.levels[at(l)];
        auto& found = m.levels.emplace_back();
        const partners pair = one_pair(machine.shape, l, ranks), all = all_pairs(machine.shape, l, ranks);
        if (!pair.any) continue;
        const std::vector<double> rates = rates_of(machine, l);
        const auto measured = [&](const partners& p, std::string_view who) {
            const auto step = [&](std::string_view what) {
                shown.now(fmt::format("{}: {} of {}", name_of(machine, l), what, who));
            };
            const link_meter meter(w, p, rates);
            link_figures f;
            step("bandwidth");
            f.bandwidth = meter.bandwidth() * link.bandwidth;
            step("overhead");
            f.overhead = meter.overhead();
            if (&p == &pair) {
                step("latency");
                f.half_round_trip = meter.half_round_trip();
            }
            return f;
        };
        found = measured_level{measured(pair, "one pair"), measured(all, "all pairs")};
        // All pairs may be slower because they share links, or because of other work: the fastest result counts.
        for (int again = 0; l >= machine.node_levels() && again < most_repeats; ++again) {
            if (found->all.bandwidth >= found->pair.bandwidth * same_rate) break;
            shown.now(fmt::format("{}: bandwidth of all pairs again", name_of(machine, l)));
            found->all.bandwidth =
                std::max(found->all.bandwidth, link_meter(w, all, rates).bandwidth() * link.bandwidth);
        }
    }
    shown.now("reduction");
    wait_asleep(w);
    m.reduction_alone = w.maximum(w.first() ? reduction_rate() : 0);
    m.reduction = shared_reduction_rate(w);
    shown.clear();
    return m;
}

hierarchy calibrated(hierarchy machine, const measured_machine& m) {
    for (int l = 0; l < machine.depth(); ++l) {
        if (!m.levels[at(l)]) continue;
        const auto& [pair, all] = *m.levels[at(l)];
        const bool in_node = l < machine.node_levels();
        level& link = machine.levels[at(l)];
        // A network link carries at least the rate of one pair; inside a node all ranks share the memory.
        const double bandwidth = in_node ? all.bandwidth : std::max(all.bandwidth, pair.bandwidth);
        for (double& rate : link.rates) rate *= bandwidth / link.bandwidth;
        link.bandwidth = bandwidth;
        set_message_times(link, pair.half_round_trip, pair.overhead);
        if (in_node) link.overhead = all.overhead;
        link.bandwidth_assumed = false;
        link = normalised(std::move(link));
    }
    machine.processors.reduction = as_printed(m.reduction);
    return machine;
}

std::string links_text(const hierarchy& before, const measured_machine& m, const hierarchy& after) {
    table rows("<<>>>>");
    rows.add({"level", "", "file", "one pair", "all pairs", "new"});
    for (int l = 0; l < before.depth(); ++l) {
        const level &old = before.levels[at(l)], &now = after.levels[at(l)];
        const auto add = [&](const char* what, auto format, double level::*value, bool level::*assumed,
                             double link_figures::*figure, bool of_all) {
            rows.add({what[0] == 'b' ? old.name : "", what, format(old.*value) + (old.*assumed ? " (assumed)" : ""),
                      m.levels[at(l)] ? format(m.levels[at(l)]->pair.*figure) : "-",
                      m.levels[at(l)] && of_all ? format(m.levels[at(l)]->all.*figure) : "-", format(now.*value)});
        };
        using f = link_figures;
        add("bandwidth", format_bandwidth, &level::bandwidth, &level::bandwidth_assumed, &f::bandwidth, true);
        add("latency", format_duration, &level::latency, &level::latency_assumed, &f::half_round_trip, false);
        add("overhead", format_duration, &level::overhead, &level::overhead_assumed, &f::overhead, true);
    }
    const auto text = [](double rate) { return rate > 0 ? format_bandwidth(rate) : "-"; };
    rows.add({"rank", "reduction", text(before.processors.reduction), text(m.reduction_alone), text(m.reduction),
              text(after.processors.reduction)});
    return rows.text() +
           "latency: measured is half a round trip of 8 bytes; new is what its overhead and its header leave of it.\n"
           "reduction: of one rank, of all at once.\n";
}

}  // namespace terrace::detail::bench
