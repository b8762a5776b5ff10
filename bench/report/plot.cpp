#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/units.hpp"
#include "bench/report/report.hpp"
#include "tools/common/svg.hpp"

namespace terrace::detail::bench {

namespace {

constexpr double left = 80, right = 200, top = 60, height = 360, width = 640;

// A logarithmic axis over [low, high] on `length` pixels.
struct log_axis {
    double low, high, length;
    double at(double value) const { return length * std::log(value / low) / std::log(high / low); }
};

// Powers of ten around the times, powers of two around the sizes; never empty.
log_axis axis_of(double low, double high, double base, double length) {
    const double first = std::pow(base, std::floor(std::log(low) / std::log(base) + 1e-9));
    const double last = std::pow(base, std::ceil(std::log(high) / std::log(base) - 1e-9));
    return {first, std::max(last, first * base), length};
}

}  // namespace

std::string to_svg(const conditions& c, std::span<const row> rows) {
    svg out(left + width + right, top + height + 60);
    out.text(16, 24, fmt::format("{}: median time by size, {} ranks", c.chosen.name(), c.ranks.size()), 14,
             svg::anchor::start, "#222", true);
    out.text(16, 42, fmt::format("{}; {}", c.ranks.has_mpi() ? c.ranks.library().substr(0, 60) : "no MPI", c.date), 11,
             svg::anchor::start, "#555");
    if (rows.empty()) return out.finish();

    double least_time = rows.front().median(), most_time = least_time;
    std::int64_t least_size = rows.front().bytes, most_size = least_size;
    std::map<std::pair<std::string, std::string>, std::vector<const row*>> lines;  // by collective and algorithm
    for (const row& r : rows) {
        least_time = std::min(least_time, r.median());
        most_time = std::max(most_time, r.median());
        least_size = std::min(least_size, r.bytes);
        most_size = std::max(most_size, r.bytes);
        lines[{c.asked.function_of(r.what), r.algorithm}].push_back(&r);
    }
    const log_axis x = axis_of(static_cast<double>(least_size), static_cast<double>(most_size), 2, width);
    const log_axis y = axis_of(std::max(least_time, 1e-9), std::max(most_time, 1e-9), 10, height);
    const auto x_of = [&](double bytes) { return left + x.at(bytes); };
    const auto y_of = [&](double seconds) { return top + height - y.at(seconds); };

    for (double tick = y.low; tick <= y.high * 1.001; tick *= 10) {
        out.line(left, y_of(tick), left + width, y_of(tick), "#ddd");
        out.text(left - 8, y_of(tick) + 4, format_duration(tick), 11, svg::anchor::end);
    }
    const int octaves = static_cast<int>(std::lround(std::log2(x.high / x.low)));
    const int every = std::max(1, octaves / 10);
    for (int o = 0; o <= octaves; o += every) {
        const double bytes = x.low * std::pow(2, o);
        out.line(x_of(bytes), top, x_of(bytes), top + height, "#ddd");
        out.text(x_of(bytes), top + height + 18, format_bytes(std::llround(bytes)), 11, svg::anchor::middle);
    }

    int number = 0;
    double legend = top + 10;
    for (const auto& [name, points] : lines) {
        const std::string stroke = colour(number++);
        std::string path;
        for (const row* r : points)
            path += fmt::format("{:.6g},{:.6g} ", x_of(static_cast<double>(r->bytes)), y_of(r->median()));
        out.polyline(path, {.stroke = stroke, .width = 2});
        for (const row* r : points)
            out.rect(x_of(static_cast<double>(r->bytes)) - 2.5, y_of(r->median()) - 2.5, 5, 5, {.fill = stroke},
                     fmt::format("{} {} of {}: {}", name.second, name.first, format_bytes(r->bytes),
                                 format_duration(r->median())));
        out.rect(left + width + 16, legend - 9, 12, 12, {.fill = stroke});
        out.text(left + width + 34, legend + 1, fmt::format("{} {}", name.first, name.second), 11);
        legend += 18;
    }
    return out.finish();
}

}  // namespace terrace::detail::bench
