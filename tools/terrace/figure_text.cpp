#include "tools/terrace/figure_text.hpp"

#include <string_view>

#include <fmt/format.h>

#include "base/index.hpp"
#include "base/units.hpp"

namespace terrace::detail {

std::string name_of(const hierarchy& machine, const figure& f) {
    using enum figure::fact;
    if (f.what == reduction) return "rate of reductions";
    const std::string_view what = f.what == bandwidth ? "bandwidth" : f.what == latency ? "latency" : "overhead";
    return fmt::format("{} of {}", what, machine.levels[at(f.level)].name);
}

std::string value_text(const figure& f, double factor) {
    const bool is_rate = f.what == figure::fact::bandwidth || f.what == figure::fact::reduction;
    return is_rate ? format_bandwidth(f.value * factor) : format_duration(f.value * factor);
}

}  // namespace terrace::detail
