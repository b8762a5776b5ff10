#include "tools/terrace/sensitivity_text.hpp"

#include <array>

#include <fmt/format.h>

#include "base/units.hpp"
#include "planner/sensitivity.hpp"
#include "tools/common/table.hpp"
#include "tools/terrace/figure_text.hpp"
#include "tools/terrace/summary.hpp"

namespace terrace::detail {

namespace {

constexpr double worth_a_line = 1.1;

std::string at_text(collective what, std::int64_t bytes) {
    return fmt::format("{}, {}", to_string(what), format_bytes(bytes));
}

}  // namespace

std::string sensitivity_text(const plan_data& plan) {
    table rows("<<<><><<");
    rows.add({"assumed", "", "if it is", "time", "most for", "anew", "most for", "stages of the new plan there"});
    std::size_t listed = 0, others = 0;
    for (const sensitivity& s : sensitivities(plan)) {
        const bool changes_choice = s.gain > worth_a_line;
        if (s.change() < worth_a_line && !changes_choice) {
            ++others;
            continue;
        }
        ++listed;
        rows.add({name_of(plan.machine, s.of), value_text(s.of), value_text(s.of, s.factor),
                  fmt::format("{:.2f}x", s.time), s.change() > 1 ? at_text(s.time_of, s.time_at) : "",
                  changes_choice ? fmt::format("{:.2f}x", 1 / s.gain) : "",
                  changes_choice ? at_text(s.gain_of, s.gain_at) : "",
                  changes_choice ? describe(plan.machine, s.choice) : ""});
    }
    if (listed + others == 0) return "sensitivity: nothing is assumed\n";
    std::string text = "sensitivity: what half and twice each assumed figure would change\n";
    if (listed > 0)
        text +=
            rows.text() + "  time: of this plan, as it is; anew: of a plan made for the other value, beside this one\n";
    return text +
           fmt::format("  others that change times and choices by less than 10 %: {} of {}\n", others, listed + others);
}

std::string most_sensitive_text(const plan_data& plan) {
    const std::array of{collective::allreduce};
    const std::vector<sensitivity> all = time_sensitivities(plan, of);
    if (all.empty() || all.front().change() < worth_a_line) return {};
    const sensitivity& s = all.front();
    return fmt::format("assumed, and decisive: {}, {}; with {} {} takes {:.2f} times as long (--sensitivity has all)\n",
                       name_of(plan.machine, s.of), value_text(s.of), value_text(s.of, s.factor),
                       at_text(s.time_of, s.time_at), s.time);
}

}  // namespace terrace::detail
