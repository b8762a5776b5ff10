#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "base/units.hpp"
#include "bench/report/figures.hpp"
#include "bench/training/report.hpp"
#include "tools/common/svg.hpp"

namespace terrace::detail::bench {

namespace {

constexpr double plot_margin = 16, plot_top = 64, row_height = 26, box_height = 14, plot_width = 560;

// The least of 1, 2, 5, 10, ... that makes at most eight steps to `end`.
double step_to(double end) {
    const double power = std::pow(10, std::floor(std::log10(end / 8)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (end / (factor * power) <= 8) return factor * power;
    return 10 * power;
}

// What a row differs in from the others.
std::string label_of(const training_row& r, std::span<const training_row> all) {
    const auto differs = [&](auto part) {
        return std::any_of(all.begin(), all.end(), [&](const auto& other) { return part(other.what) != part(r.what); });
    };
    std::string text;
    const auto add = [&](bool wanted, const std::string& word) {
        if (wanted) text += (text.empty() ? "" : ", ") + word;
    };
    add(differs([](const training_variant& v) { return v.algorithm; }), r.what.algorithm);
    add(differs([](const training_variant& v) { return v.overlap; }), r.what.overlap ? "overlap" : "no overlap");
    add(differs([](const training_variant& v) { return v.every; }), fmt::format("every {}", r.what.every));
    add(differs([](const training_variant& v) { return v.communicators; }),
        fmt::format("{} communicator{}", r.what.communicators, r.what.communicators == 1 ? "" : "s"));
    const bool buckets = differs([](const training_variant& v) { return v.bucket_bytes; });
    add(buckets || text.empty(), fmt::format("buckets {}", bucket_text(r.what.bucket_bytes)));
    return text;
}

void draw_box(svg& out, const training_row& r, double middle, const std::string& stroke, auto x_of) {
    const auto part = [&](double q) { return x_of(quantile(r.times, q)); };
    const double half = box_height / 2;
    out.line(part(0), middle, part(1), middle, stroke);
    for (const double end : {0.0, 1.0}) out.line(part(end), middle - half / 2, part(end), middle + half / 2, stroke);
    out.rect(part(0.25), middle - half, std::max(1.0, part(0.75) - part(0.25)), box_height,
             {.fill = lighter(stroke, 0.6), .stroke = stroke, .width = 1, .opacity = 1, .corner = 0},
             fmt::format("median {}, {} buckets", format_duration(quantile(r.times, 0.5)), r.buckets));
    out.line(part(0.5), middle - half, part(0.5), middle + half, stroke, 2.5);
    out.line(x_of(r.bound), middle - row_height / 2, x_of(r.bound), middle + row_height / 2, "#c00", 1.5);
}

}  // namespace

std::string to_svg(const training_conditions& c, std::span<const training_row> rows) {
    std::vector<std::string> labels;
    double label_width = 0, end = c.model.compute();
    for (const training_row& r : rows) {
        labels.push_back(label_of(r, rows));
        label_width = std::max(label_width, text_width(labels.back(), 12));
        end = std::max({end, r.bound, quantile(r.times, 1)});
    }
    const double left = plot_margin + label_width + 12, step = step_to(end * 1.02);
    const double last = step * std::ceil(end * 1.02 / step), height = row_height * static_cast<double>(rows.size());
    const auto x_of = [&](double seconds) { return left + plot_width * seconds / last; };

    svg out(left + plot_width + 60, plot_top + height + 58);
    out.text(
        plot_margin, 24,
        fmt::format("Training {}{}: time of an iteration by {}, {} ranks", c.model.name,
                    c.asked.scale == 1 ? "" : fmt::format(" x {:.4g}", c.asked.scale), c.chosen.name(), c.ranks.size()),
        14, svg::anchor::start, "#222", true);
    out.text(
        plot_margin, 42,
        fmt::format("computing is emulated, {} ms an iteration; {}", std::round(c.model.compute() * 1e4) / 10, c.date),
        11, svg::anchor::start, "#555");
    for (int i = 0; i <= std::lround(last / step); ++i) {
        out.line(x_of(i * step), plot_top, x_of(i * step), plot_top + height, "#ddd");
        out.text(x_of(i * step), plot_top + height + 18, fmt::format("{:.4g}", i * step * 1e3), 11,
                 svg::anchor::middle);
    }
    out.text(left + plot_width / 2, plot_top + height + 36, "milliseconds", 11, svg::anchor::middle, "#555");
    out.text(left, plot_top + height + 52, "box: middle half, median; lines: least to longest; red: the bound", 11,
             svg::anchor::start, "#555");
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const double middle = plot_top + row_height * (static_cast<double>(i) + 0.5);
        out.text(left - 12, middle + 4, labels[i], 12, svg::anchor::end);
        draw_box(out, rows[i], middle, colour(0), x_of);
    }
    return out.finish();
}

}  // namespace terrace::detail::bench
