#include "tools/common/svg.hpp"

#include <array>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

namespace terrace::detail {

namespace {

std::string svg_escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '&') out += "&amp;";
        else if (c == '<') out += "&lt;";
        else if (c == '>') out += "&gt;";
        else if (c == '"') out += "&quot;";
        else out += c;
    }
    return out;
}

std::string painted(const svg::style& s) {
    std::string out = fmt::format("fill=\"{}\" stroke=\"{}\"", s.fill, s.stroke);
    if (s.stroke != "none") out += fmt::format(" stroke-width=\"{:.4g}\"", s.width);
    if (s.opacity < 1) out += fmt::format(" opacity=\"{:.3g}\"", s.opacity);
    return out;
}

}  // namespace

void svg::rect(double x, double y, double w, double h, const style& s, std::string_view title) {
    body_ +=
        fmt::format("<rect x=\"{:.5g}\" y=\"{:.5g}\" width=\"{:.4g}\" height=\"{:.4g}\" {}", x, y, w, h, painted(s));
    if (s.corner > 0) body_ += fmt::format(" rx=\"{:.3g}\"", s.corner);
    body_ += title.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", svg_escaped(title));
}

void svg::line(double x1, double y1, double x2, double y2, const std::string& stroke, double width) {
    body_ += fmt::format(
        "<line x1=\"{:.6g}\" y1=\"{:.6g}\" x2=\"{:.6g}\" y2=\"{:.6g}\" stroke=\"{}\" "
        "stroke-width=\"{:.4g}\"/>\n",
        x1, y1, x2, y2, stroke, width);
}

void svg::polyline(const std::string& points, const style& s) {
    body_ += fmt::format("<polyline points=\"{}\" {}/>\n", points, painted(s));
}

void svg::text(double x, double y, std::string_view text, double size, anchor where, const std::string& fill,
               bool bold) {
    constexpr std::array names{"start", "middle", "end"};
    body_ += fmt::format(
        "<text x=\"{:.6g}\" y=\"{:.6g}\" font-size=\"{:.3g}\" text-anchor=\"{}\" fill=\"{}\"{}>"
        "{}</text>\n",
        x, y, size, names[static_cast<std::size_t>(where)], fill, bold ? " font-weight=\"bold\"" : "",
        svg_escaped(text));
}

std::string svg::finish() const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.6g}\" height=\"{1:.6g}\" "
        "viewBox=\"0 0 {0:.6g} {1:.6g}\" font-family=\"Helvetica, Arial, sans-serif\" stroke=\"none\">\n<!-- made by "
        "terrace -->\n"
        "<rect width=\"{0:.6g}\" height=\"{1:.6g}\" fill=\"white\"/>\n{2}</svg>\n",
        width_, height_, body_);
}

double text_width(std::string_view text, double size) noexcept {
    return 0.56 * size * static_cast<double>(text.size());
}

std::string colour(int i) {
    constexpr std::array palette{"#4477aa", "#ee6677", "#228833", "#ccbb44", "#aa3377", "#66ccee"};
    return palette[static_cast<std::size_t>(i) % palette.size()];
}

std::string lighter(const std::string& colour, double part) {
    const auto channel = [&](std::size_t at) {
        const double value = static_cast<double>(std::strtol(colour.substr(at, 2).c_str(), nullptr, 16));
        return static_cast<int>(std::lround(value + (255 - value) * part));
    };
    return fmt::format("#{:02x}{:02x}{:02x}", channel(1), channel(3), channel(5));
}

}  // namespace terrace::detail
