#include "tools/terrace/figure_text.hpp"

#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "base/index.hpp"
#include "base/units.hpp"

namespace terrace::detail {

namespace {

// To four digits.
double rounded(double value) {
    if (!(value > 0)) return value;
    const double digit = std::pow(10, std::floor(std::log10(value)) - 3);
    return std::round(value / digit) * digit;
}

}  // namespace

std::string name_of(const hierarchy& machine, const figure& f) {
    using enum figure::fact;
    if (f.what == reduction) return "rate of reductions";
    const std::string_view what = f.what == bandwidth ? "bandwidth" : f.what == latency ? "latency" : "overhead";
    return fmt::format("{} of {}", what, machine.levels[at(f.level)].name);
}

std::string value_text(const figure& f, double factor) {
    const bool is_rate = f.what == figure::fact::bandwidth || f.what == figure::fact::reduction;
    const double value = factor == 1 ? f.value : rounded(f.value * factor);
    return is_rate ? format_bandwidth(value) : format_duration(value);
}

}  // namespace terrace::detail
