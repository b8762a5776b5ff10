#include "tools/terrace/proof.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/index.hpp"
#include "plan/plan_yaml.hpp"
#include "plan/routes.hpp"
#include "schedule/call_schedule.hpp"
#include "schedule/lower.hpp"
#include "schedule/machine_schedules.hpp"
#include "schedule/stage_groups.hpp"
#include "schedule/verify.hpp"
#include "tools/terrace/summary.hpp"

namespace terrace::detail {

namespace {

constexpr int element = 4;  // bytes: float32

const rule& rule_of(const plan_data& plan, const claim& c) { return plan.rules.at(c.what)[c.rule]; }

call_layout lay_out(const plan_data& plan, const claim& c) {
    collective_call call = equal_call(plan.machine.ranks(), c.what, c.count, element);
    call.root = c.root;
    return {plan.machine, rule_of(plan, c).stages, std::move(call)};
}

void add_claims(const plan_data& plan, collective what, int root, std::optional<std::int64_t> count,
                std::vector<claim>& claims) {
    const int ranks = plan.machine.ranks(), blocks = row_of(what).blocks ? ranks : 1;
    const std::vector<rule>& rules = plan.rules.at(what);
    for (std::size_t r = 0; r < rules.size(); ++r) {
        std::set<std::int64_t> known;
        const auto add = [&](std::int64_t message) {
            const collective_call call{.what = what, .count = message, .element = element};  // of equal blocks
            const slicing s = slice_call(call, rules[r], ranks, {});
            for (const std::int64_t chunk : {s.chunk, s.tail})
                if (known.insert(chunk).second)
                    claims.push_back(
                        {what, r, chunk, root,
                         fmt::format("{} of {} elements", row_of(what).blocks ? "blocks" : "a message", message)});
        };
        if (count) {
            add(*count);
            continue;
        }
        for (const int message : {0, 1, ranks - 1, ranks, 2 * ranks + 3}) add(message);
        // The smallest and the largest message of the rule; without a bound, the size for which it was made.
        if (r > 0) add(rules[r - 1].up_to / element / blocks + 1);
        add(rules[r].at / element / blocks);
    }
}

// Returns about the number of instructions of a rank of a group: of its first position; above 1024 ranks, of a ring.
std::int64_t instructions_of(const algorithm& a, algorithm::generator emit, int size) {
    if (emit == nullptr) return 0;
    if (size > 1024) return 2 * a.startups(size);
    builder out(0, size, collective::allreduce, size);
    emit(out, group::numbered(size));
    return static_cast<std::int64_t>(lower(out.finish(), {}).instrs.size());
}

}  // namespace

plan_data read_runnable_plan(const std::filesystem::path& file) {
    plan_data plan = read_plan(file);
    check_runnable(plan);
    return plan;
}

std::vector<claim> claims_of(const plan_data& plan, std::optional<std::int64_t> count) {
    const int last = plan.machine.ranks() - 1;
    std::vector<claim> claims;
    for (const auto& [what, rules] : plan.rules)
        for (const int root : row_of(what).has_root() ? std::set{0, last / 2, last} : std::set{0})
            add_claims(plan, what, root, count, claims);
    return claims;
}

std::int64_t work_of(const plan_data& plan, const claim& c) {
    const std::int64_t ranks = plan.machine.ranks();
    const std::vector<stage>& stages = rule_of(plan, c).stages;
    const tree shape = stage_tree(plan.machine, stages);
    const routes ways = routes_of(plan.machine, stages);
    std::int64_t work = 8 * ranks;                     // fixed cost of each rank
    if (row_of(c.what).blocks) work += ranks * ranks;  // blocks are copied one by one
    if (row_of(c.what).exchange) return work + 2 * ranks * ranks * static_cast<std::int64_t>(stages.size());
    std::int64_t holders = ranks;
    for (int l = 0; l < shape.depth(); ++l) {
        const algorithm& by = *find_algorithm(stages[at(l)]);
        const mode how = stages[at(l)].how;
        const int size = std::ranges::max(shape.children()[at(l)]);
        const std::int64_t groups = holders * (l < ways.common ? 1 : ways.count());
        if (row_of(c.what).up) work += groups * instructions_of(by, by.up(how), size);
        if (row_of(c.what).down) work += groups * instructions_of(by, by.down(how), size);
        if (how == mode::root) holders = std::max<std::int64_t>(shape.domains(l), holders / size);
    }
    return work;
}

std::optional<std::string> prove_by_groups(const plan_data& plan, const claim& c, group_proof& known) {
    const call_layout layout = lay_out(plan, c);
    if (row_of(c.what).exchange) return known.find_exchange_fault(layout.block_groups());
    return row_of(c.what).blocks ? known.find_fault(layout.block_groups()) : known.find_fault(layout.groups());
}

std::optional<std::string> prove(const plan_data& plan, const claim& c) {
    const call_layout layout = lay_out(plan, c);
    const auto fault_on = [&](const capabilities& can, const std::function<buffer(int rank)>& home) {
        std::vector<schedule> programs;
        for (int r = 0; r < plan.machine.ranks(); ++r) programs.push_back(layout.schedule_of(r, can, home(r)));
        return find_fault(programs, {.root = c.root, .blocks = layout.call().blocks});
    };
    const auto everywhere = [](buffer home) { return [home](int) { return home; }; };
    if (auto fault = fault_on({}, everywhere(buffer::recv)); fault || !any_follows_buffers(rule_of(plan, c)))
        return fault;
    const capabilities can = memory_capabilities(plan.machine);
    if (can.domain.empty()) return {};
    std::vector<std::function<buffer(int rank)>> homes{everywhere(buffer::scratch)};
    if (!row_of(c.what).blocks) {
        homes.emplace_back(everywhere(buffer::recv));
        homes.emplace_back([](int rank) { return rank % 2 == 0 ? buffer::scratch : buffer::recv; });
    }
    for (const auto& home : homes)
        if (const auto fault = fault_on(can, home)) return "with stages in shared memory: " + *fault;
    return {};
}

std::string describe(const plan_data& plan, const claim& c) {
    const rule& r = rule_of(plan, c);
    return fmt::format("{} rule {} (up to {}), {} elements, from {}{}", to_string(c.what), c.rule + 1,
                       bound_text(r.up_to), c.count, c.reason,
                       row_of(c.what).has_root() ? fmt::format(", root {}", c.root) : "");
}

}  // namespace terrace::detail
