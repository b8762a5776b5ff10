#include "support/shapes.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/index.hpp"
#include "plan/routes.hpp"
#include "schedule/block_layout.hpp"
#include "schedule/exchange.hpp"
#include "schedule/registry.hpp"

namespace terrace::detail::test {

namespace {

struct choice_of_stage {
    mode how;
    std::string_view by;
};

const std::vector<choice_of_stage>& stage_choices() {
    static const std::vector<choice_of_stage> all = [] {
        std::vector<choice_of_stage> result;
        for (mode m : {mode::scatter, mode::root, mode::replicate})
            for (const std::span<const algorithm> rows : {algorithms(), provider_collectives()})
                for (const algorithm& a : rows)
                    // Schedules of NCCL's collectives are equal to those of shared memory.
                    if (a.supports(m) && a.provider != provider::nccl) result.push_back({m, a.name});
        return result;
    }();
    return all;
}

// Returns how many children of level `first` each domain of level `last` contains, if the number is the same for all;
// else 0.
int group_size(const tree& shape, int first, int last) {
    int same = -1;
    for (int d = 0; d < shape.domains(last); ++d) {
        int low = d, high = d + 1;
        for (int l = last; l >= first; --l) {
            low = shape.first_child(l, low);
            high = shape.first_child(l, high);
        }
        if (same >= 0 && same != high - low) return 0;
        same = high - low;
    }
    return same;
}

// Appends to `all` every way to continue the stages from `level`, whose domains have `part` children left (0: all).
void cover(const tree& shape, int level, int part, std::vector<stage>& so_far, std::vector<std::vector<stage>>& all) {
    if (level == shape.depth()) {
        all.push_back(so_far);
        return;
    }
    const auto go_on = [&](std::vector<int> levels, int group, int next, int next_part) {
        so_far.push_back({.levels = std::move(levels), .group = group, .how = mode::scatter, .algorithm = ""});
        cover(shape, next, next_part, so_far, all);
        so_far.pop_back();
    };
    const int size = part > 0 ? part : shape.uniform_size(level).value_or(0);
    for (int factor = 2; factor < size; ++factor)
        if (size % factor == 0) go_on({level}, factor, level, size / factor);
    if (part > 0) {
        go_on({level}, part, level + 1, 0);
        return;
    }
    std::vector<int> merged;
    for (int last = level; last < shape.depth(); ++last) {
        merged.push_back(last);
        go_on(merged, group_size(shape, level, last), last + 1, 0);
    }
}

}  // namespace

level link(std::string name, fabric medium, double bandwidth, double latency, double overhead) {
    level l;
    l.name = std::move(name);
    l.medium = medium;
    l.bandwidth = bandwidth;
    l.latency = latency;
    l.overhead = overhead;
    return l;
}

hierarchy machine_of(tree shape) {
    hierarchy machine;
    for (int l = 0; l < shape.depth(); ++l) {
        level& made = machine.levels.emplace_back();
        made.name = fmt::format("l{}", l);
        made.bandwidth = 1e9;
    }
    machine.shape = std::move(shape);
    return machine;
}

std::vector<hierarchy> uniform_machines(int ranks) {
    std::vector<int> primes;
    for (int rest = ranks, factor = 2; rest > 1; ++factor)
        for (; rest % factor == 0; rest /= factor) primes.push_back(factor);
    std::vector<hierarchy> result{machine_of(tree::uniform(std::vector{ranks}))};
    if (primes.size() > 1) result.push_back(machine_of(tree::uniform(primes)));
    return result;
}

std::vector<hierarchy> uneven_machines() {
    std::vector<hierarchy> result;
    for (std::vector<std::vector<int>> children : std::vector<std::vector<std::vector<int>>>{
             {{2, 1}, {2}},
             {{4, 2}, {2}},
             {{3, 3, 1}, {3}},
             {{1, 1, 2}, {3}},
             {{1, 5, 2, 1}, {4}},
             {{4, 4, 3}, {3}},
             {{5, 4, 3}, {3}},
             {{4, 4, 4, 1}, {4}},
             {{5, 5, 5, 4}, {4}},
             {{8, 8, 7}, {3}},
             {{2, 2, 2, 2, 2}, {3, 2}, {2}},
             {{1, 1, 1, 1, 1}, {3, 2}, {2}},
             {{2, 2, 1, 3, 1}, {3, 2}, {2}},
             {{4, 2, 3, 3, 1}, {2, 3}, {2}},
             {{2, 2, 4}, {2, 1}, {2}},
             {{3, 2, 2, 3, 1, 2, 2}, {2, 1, 3, 1}, {2, 2}, {2}},
             {{4, 4, 4, 4, 4, 3}, {3, 3}, {2}},
         })
        result.push_back(machine_of(tree(std::move(children))));
    return result;
}

std::vector<hierarchy> machines_of_size(int ranks) {
    std::vector<hierarchy> result = uniform_machines(ranks);
    for (hierarchy& machine : uneven_machines())
        if (machine.ranks() == ranks) result.push_back(std::move(machine));
    return result;
}

hierarchy torus_of(const std::vector<int>& shape, int dimensions) {
    hierarchy machine = machine_of(tree::uniform(shape));
    for (int l = machine.depth() - dimensions; l < machine.depth(); ++l) {
        machine.levels[at(l)].medium = fabric::infiniband;
        machine.levels[at(l)].ring = true;
    }
    return machine;
}

std::vector<hierarchy> tori() {
    return {torus_of({2, 2}, 2),    torus_of({3, 2}, 2),    torus_of({4, 4}, 2),       torus_of({5, 3}, 2),
            torus_of({3, 2, 4}, 3), torus_of({2, 3, 2}, 2), torus_of({2, 1, 2, 3}, 3), torus_of({2, 2, 2, 2}, 3)};
}

hierarchy random_machine(int ranks, dice& d) {
    std::vector<std::vector<int>> children;
    int members = ranks;
    for (std::size_t inner = d.below(4); inner > 0; --inner) {
        std::vector<int>& sizes = children.emplace_back();
        const int even = 1 + static_cast<int>(d.below(at(members))), most = 1 + static_cast<int>(d.below(at(members)));
        const bool uniform = members % even == 0 && d.coin();
        for (int left = members; left > 0; left -= sizes.back())
            sizes.push_back(uniform ? even : 1 + static_cast<int>(d.below(at(std::min(left, most)))));
        members = static_cast<int>(sizes.size());
    }
    children.push_back({members});
    const tree shape(children);
    if (shape.uniform() && d.coin()) {
        std::vector<int> sizes;
        for (int l = 0; l < shape.depth(); ++l) sizes.push_back(shape.children(l, 0));
        return torus_of(sizes, 1 + static_cast<int>(d.below(sizes.size())));
    }
    return with_random_nodes(machine_of(shape), d);
}

hierarchy with_random_nodes(hierarchy machine, dice& d) {
    for (std::size_t l = d.below(machine.levels.size() + 1); l < machine.levels.size(); ++l)
        machine.levels[l].medium = fabric::ethernet;
    return machine;
}

std::string text(const tree& shape) {
    std::string result;
    for (const std::vector<int>& sizes : shape.children())
        result += fmt::format("{}[{}]", result.empty() ? "" : " ", fmt::join(sizes, ","));
    return result;
}

stage run_by(stage s, std::string_view by) {
    const std::optional<provider> own = parse_provider(by);
    s.provider = own.value_or(provider::messages);
    s.algorithm = own ? "" : by;
    return s;
}

std::vector<stage> direct_stages(const hierarchy& machine, const std::vector<wire_type>& wires) {
    std::vector<stage> stages;
    for (int l = 0; l < machine.depth(); ++l)
        stages.push_back({.levels = {l},
                          .group = machine.shape.uniform_size(l).value_or(0),
                          .how = mode::scatter,
                          .algorithm = "direct",
                          .wire = wires[at(l)]});
    return stages;
}

std::vector<std::vector<stage>> stagings(const hierarchy& machine) {
    std::vector<std::vector<stage>> all;
    std::vector<stage> so_far;
    cover(machine.shape, 0, 0, so_far, all);
    return all;
}

std::size_t choices(std::size_t stages) {
    std::size_t n = 1;
    for (std::size_t s = 0; s < stages; ++s) n *= stage_choices().size();
    return n;
}

std::vector<stage> with_choice(std::vector<stage> stages, std::size_t choice) {
    for (stage& s : stages) {
        const choice_of_stage& c = stage_choices()[choice % stage_choices().size()];
        choice /= stage_choices().size();
        s.how = c.how;
        s = run_by(std::move(s), c.by);
    }
    return stages;
}

bool able(const std::vector<stage>& stages, collective what) {
    if (row_of(what).exchange) return !fault_of_exchange(stages, what);
    if (row_of(what).blocks) return !fault_of_blocks(stages);
    return std::all_of(stages.begin(), stages.end(), [&](const stage& s) { return can(s.how, what); });
}

std::vector<stage> random_stages(const hierarchy& machine, collective what, dice& d) {
    const auto all = stagings(machine);
    for (;;) {
        const std::vector<stage>& bare = all[d.below(all.size())];
        std::vector<stage> stages = with_choice(bare, d.below(choices(bare.size())));
        for (stage& s : stages)
            while (!able(std::vector{s}, what)) s = with_choice({s}, d.below(stage_choices().size())).front();
        if (!fits(machine, stages) || !able(stages, what)) continue;
        if (row_of(what).exchange) return stages;
        const auto turns = turns_of(machine, stages, 2);
        return turns.empty() ? stages : d.pick(turns);
    }
}

std::vector<std::vector<stage>> turns_of(const hierarchy& machine, const std::vector<stage>& stages, int most) {
    const std::span<const stage> turning = dimensions_of(machine, stages);
    const std::size_t dimensions = turning.size();
    if (!all_send(turning)) return {};
    std::vector<std::vector<stage>> all;
    if (dimensions > 0) all.push_back(stages);
    for (std::size_t s = stages.size() - dimensions; s < stages.size(); ++s)
        for (std::size_t known = all.size(), i = 0; i < known; ++i)
            for (int first = 1; first <= most; ++first) {
                all.push_back(all[i]);
                all.back()[s].route_share = first;
            }
    return all;
}

bool fits(const hierarchy& machine, const std::vector<stage>& stages) {
    const tree shape = stage_tree(machine, stages);
    std::vector<int> replicas(at(machine.ranks()), 1);  // ranks that own each element together, by domain
    for (int l = 0; l < shape.depth(); ++l) {
        std::vector<int> above;
        for (int d = 0; d < shape.domains(l); ++d) {
            const auto first = replicas.begin() + shape.first_child(l, d);
            const int children = shape.children(l, d);
            if (std::adjacent_find(first, first + children, std::not_equal_to<>()) != first + children) return false;
            above.push_back(*first * (stages[at(l)].how == mode::replicate ? children : 1));
        }
        replicas = std::move(above);
    }
    return true;
}

}  // namespace terrace::detail::test
