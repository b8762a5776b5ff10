#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/version.hpp>

#include "bench/report/report.hpp"

namespace terrace::detail::bench {

namespace {

// Shapes hold commas.
std::string quoted(const std::string& text) {
    std::string made = "\"";
    for (const char c : text) {
        if (c == '"') made += '"';
        made += c;
    }
    return made + "\"";
}

std::string optional_text(const std::optional<double>& value) { return value ? fmt::format("{:.6g}", *value) : ""; }

}  // namespace

std::string to_csv(const conditions& c, std::span<const row> rows) {
    std::string text = fmt::format(
        "# made by terrace-bench {}, {}\n"
        "collective,algorithm,bytes,count,type,op,time_us,time_us_p25,time_us_p75,time_us_p95,time_us_p99,algbw,busbw,"
        "percent_of_limit,percent_of_goodput,percent_of_bus,ratio,ratio_p25,ratio_p75,wrong,lanes,chunk,shape\n",
        version(), c.date);
    for (const row& r : rows) {
        const figures f = figures_of(c, r);
        std::vector<std::string> fields{c.asked.function_of(r.what),
                                        r.algorithm,
                                        std::to_string(r.bytes),
                                        std::to_string(r.count),
                                        std::string(to_string(c.asked.type)),
                                        row_of(r.what).up ? std::string(to_string(c.asked.op)) : ""};
        for (const double part : {0.5, 0.25, 0.75, 0.95, 0.99})
            fields.push_back(fmt::format("{:.3f}", quantile(r.times, part) * 1e6));
        fields.push_back(fmt::format("{:.6g}", f.algbw));
        fields.push_back(fmt::format("{:.6g}", f.busbw));
        for (const auto& percent : {f.percent_of_limit, f.percent_of_goodput, f.percent_of_bus})
            fields.push_back(optional_text(percent));
        for (const double part : {0.5, 0.25, 0.75})
            fields.push_back(r.ratios.empty() ? "" : fmt::format("{:.6g}", quantile(r.ratios, part)));
        fields.push_back(r.wrong ? std::to_string(*r.wrong) : "");
        fields.push_back(std::to_string(r.how.lanes));
        fields.push_back(std::to_string(r.how.chunk));
        fields.push_back(quoted(r.how.shape));
        text += fmt::format("{}\n", fmt::join(fields, ","));
    }
    return text;
}

}  // namespace terrace::detail::bench
