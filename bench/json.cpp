#include <nlohmann/json.hpp>

#include <terrace/version.hpp>

#include "bench/report.hpp"

namespace terrace::bench {

namespace {

using json = nlohmann::ordered_json;

template <class T>
json or_null(const std::optional<T>& value) {
    return value ? json(*value) : json(nullptr);
}

// Rates of all levels, in GB/s as in the results.
json levels_json(const yardstick& y) {
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

json row_json(const conditions& c, const row& r) {
    const figures f = figures_of(c, r);
    return {{"algorithm", r.algorithm},
            {"collective", "allreduce"},
            {"bytes", r.bytes},
            {"count", r.count},
            {"type", to_string(c.asked.type)},
            {"op", to_string(c.asked.op)},
            {"in_place", r.in_place},
            {"shape", r.how.shape},
            {"lanes", r.how.lanes},
            {"chunk", r.how.chunk},
            {"iterations", r.times.size()},
            {"time_us", f.time * 1e6},
            {"time_us_min", r.quantile(0) * 1e6},
            {"time_us_p25", r.quantile(0.25) * 1e6},
            {"time_us_p75", r.quantile(0.75) * 1e6},
            {"algbw", f.algbw},
            {"busbw", f.busbw},
            {"wrong", or_null(r.wrong)},
            {"percent_of_limit", or_null(f.percent_of_limit)},
            {"percent_of_goodput", or_null(f.percent_of_goodput)}};
}

}  // namespace

std::string to_json(const conditions& c, std::span<const row> rows) {
    json all{{"terrace_bench", 1},
             {"terrace_version", version()},
             {"date", c.date},
             {"mpi_version", c.ranks.library()},
             {"plan_name", c.chosen.name()},
             {"plan_id", c.chosen.id()},
             {"ranks", c.ranks.size()},
             {"hosts", c.ranks.host_count()},
             {"placement", c.asked.place == options::placement::by_node ? "by-node" : "anywhere"},
             {"burst", c.against.burst()},
             {"warmup", c.asked.warmup},
             {"levels", levels_json(c.against)},
             {"results", json::array()}};
    for (const row& r : rows) all["results"].push_back(row_json(c, r));
    return all.dump(2) + '\n';
}

}  // namespace terrace::bench
