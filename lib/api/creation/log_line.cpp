#include "api/creation/log_line.hpp"

#include <fmt/format.h>

#include <terrace/version.hpp>

#include "base/units.hpp"

namespace terrace::detail {

std::string log_line(const plan_data& plan, std::string_view transports) {
    std::string line = fmt::format("terrace {}: plan {} \"{}\", {} ranks ({}), transport {}", version(), plan.id,
                                   plan.name, plan.machine.ranks(), shape_text(plan.machine.shape), transports);
    for (const auto& [what, rules] : plan.rules) {
        line += fmt::format("; {}", to_string(what));
        if (what != collective::allreduce) {
            line += rules.size() == 1 ? " 1 rule" : fmt::format(" {} rules", rules.size());
            continue;
        }
        const char* separator = " ";
        for (std::size_t i = 0; i < rules.size(); ++i) {
            const rule& r = rules[i];
            if (i + 1 < rules.size() && rules[i + 1].stages == r.stages) continue;  // they differ in lanes and chunks
            const std::string bound = r.up_to != rule::no_bound ? "up to " + format_bytes(r.up_to)
                                      : *separator == ' '       ? "of any size"
                                                                : "above";
            line += fmt::format("{}{}: {}", separator, bound, describe(plan.machine, r.stages));
            separator = ", ";
        }
    }
    return line;
}

}  // namespace terrace::detail
