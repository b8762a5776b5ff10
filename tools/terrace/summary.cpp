#include "tools/terrace/summary.hpp"

#include <fmt/format.h>

#include "base/units.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "plan/level_names.hpp"
#include "tools/common/table.hpp"
#include "topology/describe.hpp"

namespace terrace::detail {

std::string ratio_text(double slower, double faster) {
    return faster <= 0 ? "-" : fmt::format("{:.2f}x", slower / faster);
}

std::string percent_of_limit(double limit, double time) {
    return limit <= 0 || time <= 0 ? "-" : fmt::format("{:.0f} %", 100 * limit / time);
}

std::string bound_text(std::int64_t up_to) { return up_to == rule::no_bound ? "max" : format_bytes(up_to); }

std::string predicted_text(const rule& r) {
    const std::string price = format_duration(r.predicted);
    return r.simulated > 0 ? fmt::format("{} (simulated: {})", price, format_duration(r.simulated)) : price;
}

std::string lanes_text(const rule& r) {
    return r.chunk == 0 ? "-" : fmt::format("{} x {}", r.lanes, format_bytes(r.chunk));
}

std::string stage_text(const hierarchy& machine, const stage& s) {
    return fmt::format("{} {}", level_names(machine, s), describe(s));
}

std::string ranks_text(const hierarchy& machine) {
    return fmt::format("{} {}", machine.ranks(), machine.ranks() == 1 ? "rank" : "ranks");
}

std::string rates_text(const hierarchy& machine) {
    table rows("<<<<<");
    rows.add({"level", "fabric", "bandwidth", "latency", "overhead"});
    bool any = false;
    const auto marked = [&](const std::string& text, bool assumed) {
        any |= assumed;
        return assumed ? text + " *" : text;
    };
    for (const level& l : machine.levels)
        rows.add({l.name, fabric_text(l), marked(bandwidth_text(l), l.bandwidth_assumed),
                  marked(format_duration(l.latency), l.latency_assumed),
                  marked(format_duration(l.overhead), l.overhead_assumed)});
    std::string devices;
    for (const level& l : machine.levels)
        if (const std::string text = device_rates_text(l); !text.empty()) {
            devices += fmt::format("  buffers on GPUs, {}: {}\n", l.name, text);
            any |= text.find('*') != std::string::npos;
        }
    return rows.text() + devices +
           (any ? "  * assumed: the file does not say it, or not its unit; docs/reference/topology-files.md has the "
                  "table of assumptions\n"
                : "");
}

}  // namespace terrace::detail
