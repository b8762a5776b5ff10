#include "api/auto_plan.hpp"

#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "executor/engine.hpp"
#include "plan/plan_yaml.hpp"
#include "planner/planner.hpp"
#include "schedule/compose.hpp"

namespace terrace {

namespace {

// Rank 0's text to all ranks: a broadcast by a plan of one stage.
void broadcast_text(const hierarchy& machine, std::string& text, transport& net) {
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(net.size()));
    const auto own = static_cast<std::int64_t>(text.size());
    net.gather_all(&own, lengths.data(), sizeof own);
    text.resize(static_cast<std::size_t>(lengths.front()));
    if (net.size() == 1) return;
    std::vector<int> levels(static_cast<std::size_t>(machine.depth()));
    std::iota(levels.begin(), levels.end(), 0);
    const stage one{.levels = levels, .group = net.size(), .how = mode::root, .algorithm = "tree"};
    const composition all = compose(machine, std::span(&one, 1), lengths.front(), 1, 0);
    const slicing whole{.chunk = 0, .chunks = 1, .tail = lengths.front()};
    program p({}, lower(generate(all, collective::broadcast, net.rank()), {}), {.element = 1, .chunks = whole}, net);
    run_alone(p, net, text.data(), text.data());
}

}  // namespace

plan plan_part(const recipe& whole, std::span<const int> ranks, transport& net) {
    const hierarchy machine = part_of(whole.machine, ranks);
    // A plan, or why there is none.
    constexpr char good = '+', bad = '-';
    std::string text;
    if (net.rank() == 0) {
        try {
            text = good + make_plan(fmt::format("{}.{}of{}", whole.name, ranks.size(), whole.machine.ranks()), machine).text;
        } catch (const std::exception& e) {
            text = bad + std::string(e.what());
        }
    }
    broadcast_text(machine, text, net);
    if (text.front() == bad) throw plan_error(fmt::format("split: no plan for {} ranks: {}", ranks.size(), text.substr(1)));
    return plan(std::make_shared<const recipe>(parse_plan(std::string_view(text).substr(1), "plan of a split")));
}

}  // namespace terrace
