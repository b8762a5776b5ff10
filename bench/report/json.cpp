#include <cmath>

#include <nlohmann/json.hpp>

#include <terrace/version.hpp>

#include "bench/report/report.hpp"

namespace terrace::detail::bench {

namespace {

using json = nlohmann::ordered_json;

template <class T>
json or_null(const std::optional<T>& value) {
    return value ? json(*value) : json(nullptr);
}

// Returns the rates of all levels, in GB/s as in the results.
json levels_json(const link_limits& y) {
    json all = json::array();
    for (int l = 0; l < y.machine().depth(); ++l) {
        const level& link = y.machine().levels[static_cast<std::size_t>(l)];
        json entry{{"level", link.name}, {"fabric", to_string(link.medium)}, {"bandwidth", link.bandwidth / 1e9}};
        const auto measured = y.has_goodput() ? y.measured()[static_cast<std::size_t>(l)] : std::nullopt;
        entry["goodput_measured"] = measured ? json(*measured / 1e9) : json(nullptr);
        entry["goodput"] = y.has_goodput() ? json(y.goodput(l) / 1e9) : json(nullptr);
        all.push_back(std::move(entry));
    }
    return all;
}

json bus_json(const link_limits& y) {
    if (!y.bus()) return nullptr;
    return {{"from_device", y.bus()->in / 1e9}, {"to_device", y.bus()->out / 1e9}, {"both", y.bus()->both / 1e9}};
}

json ratio_json(const row& r, double part) { return r.ratios.empty() ? json(nullptr) : json(quantile(r.ratios, part)); }

json row_json(const conditions& c, const row& r) {
    const figures f = figures_of(c, r);
    return {{"algorithm", r.algorithm},
            {"collective", c.asked.function_of(r.what)},
            {"bytes", r.bytes},
            {"count", r.count},
            {"type", to_string(c.asked.type)},
            {"op", row_of(r.what).up ? json(to_string(c.asked.op)) : json(nullptr)},
            {"root", row_of(r.what).has_root() ? json(c.asked.root) : json(nullptr)},
            {"in_place", r.in_place},
            {"shape", r.how.shape},
            {"lanes", r.how.lanes},
            {"chunk", r.how.chunk},
            {"iterations", r.times.size()},
            {"time_us", f.time * 1e6},
            {"time_us_min", quantile(r.times, 0) * 1e6},
            {"time_us_p25", quantile(r.times, 0.25) * 1e6},
            {"time_us_p75", quantile(r.times, 0.75) * 1e6},
            {"time_us_p95", quantile(r.times, 0.95) * 1e6},
            {"time_us_p99", quantile(r.times, 0.99) * 1e6},
            {"time_us_max", quantile(r.times, 1) * 1e6},
            {"times_us", microseconds_of(r.times)},
            {"ratio", ratio_json(r, 0.5)},
            {"ratio_p25", ratio_json(r, 0.25)},
            {"ratio_p75", ratio_json(r, 0.75)},
            {"algbw", f.algbw},
            {"busbw", f.busbw},
            {"wrong", or_null(r.wrong)},
            {"percent_of_limit", or_null(f.percent_of_limit)},
            {"percent_of_goodput", or_null(f.percent_of_goodput)},
            {"percent_of_bus", or_null(f.percent_of_bus)},
            {"cores", r.cores},
            {"percent_steal_time", or_null(r.percent_steal_time)}};
}

}  // namespace

json microseconds_of(std::span<const double> times) {
    json all = json::array();
    for (const double t : times) all.push_back(std::round(t * 1e9) / 1e3);
    return all;
}

json head_of(const world& ranks, const plan& chosen, const std::string& date, options::placement place, bool ucx,
             int warmup) {
    return {{"terrace_bench", 1},
            {"made_by", fmt::format("terrace-bench {}", version())},
            {"terrace_version", version()},
            {"date", date},
            {"mpi_version", ranks.has_mpi() ? json(ranks.library()) : json(nullptr)},
            {"plan_name", chosen.name()},
            {"plan_id", chosen.id()},
            {"ranks", ranks.size()},
            {"hosts", ranks.host_count()},
            {"placement", place == options::placement::by_node ? "by-node" : "anywhere"},
            {"transport", ucx ? "ucx" : "mpi"},
            {"warmup", warmup}};
}

std::string to_json(const conditions& c, std::span<const row> rows, std::span<const absence> absent) {
    json all = head_of(c.ranks, c.chosen, c.date, c.asked.place, c.asked.ucx, c.asked.warmup);
    all.update({{"buffers", c.asked.windows ? "window" : "user"},
                {"async", c.asked.async},
                {"in_turn", c.asked.in_turn},
                {"device", c.device != nullptr ? json(c.device->description()) : json(nullptr)},
                {"ranks_per_device", c.device != nullptr ? json(c.device->sharers()) : json(nullptr)},
                {"staging", c.asked.staging},
                {"graph", c.asked.graph},
                {"bus", bus_json(c.against)},
                {"reference", c.asked.reference},
                {"levels", levels_json(c.against)},
                {"skipped", json::array()},
                {"results", json::array()}});
    for (const absence& a : absent)
        all["skipped"].push_back(
            {{"collective", c.asked.function_of(a.what)}, {"algorithm", a.algorithm}, {"why", a.why}});
    for (const row& r : rows) all["results"].push_back(row_json(c, r));
    return all.dump(2) + '\n';
}

}  // namespace terrace::detail::bench
