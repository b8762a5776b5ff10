#include "support/programs.hpp"

#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "schedule/call_schedule.hpp"
#include "schedule/lower.hpp"

namespace terrace::detail::test {

namespace {

std::string name_of(const hierarchy& machine, const std::vector<stage>& stages, collective what) {
    return fmt::format("{}: {}, {}", text(machine.shape), describe(machine, stages), to_string(what));
}

program_of_all program_of(std::string name, const hierarchy& machine, const std::vector<stage>& stages,
                          const collective_call& call) {
    const call_layout layout(machine, stages, call);
    program_of_all result{std::move(name), {}, {.root = call.root, .blocks = call.blocks}};
    for (int rank = 0; rank < machine.ranks(); ++rank) result.schedules.push_back(layout.generated_for(rank));
    return result;
}

}  // namespace

program_of_all vector_program(const hierarchy& machine, const std::vector<stage>& stages, collective what,
                              std::int64_t count, std::int64_t quantum, int root) {
    return program_of(
        fmt::format("{} of {}, root {}, quantum {}", name_of(machine, stages, what), count, root, quantum), machine,
        stages, {.what = what, .count = count, .root = root, .element = 64 / static_cast<std::size_t>(quantum)});
}

program_of_all block_program(const hierarchy& machine, const std::vector<stage>& stages, collective what,
                             const std::vector<range>& blocks, int root) {
    std::vector<std::int64_t> counts, begins;
    for (range b : blocks) {
        counts.push_back(b.count());
        begins.push_back(b.begin);
    }
    return program_of(
        fmt::format("{} of blocks of {}, at {}, root {}", name_of(machine, stages, what), counts, begins, root),
        machine, stages, {.what = what, .root = root, .blocks = blocks, .counts_given = true});
}

program_of_all staged_program(const hierarchy& machine, const std::vector<stage>& stages, const collective_call& call,
                              const std::vector<buffer>& homes) {
    capabilities can;
    can.stages = ~0u;
    const call_layout layout(machine, stages, call);
    program_of_all result{fmt::format("{} of {}, root {}, stages in shared memory", name_of(machine, stages, call.what),
                                      call.elements(), call.root),
                          {},
                          {.root = call.root, .blocks = call.blocks, .tree = call.tree}};
    for (int rank = 0; rank < machine.ranks(); ++rank)
        result.schedules.push_back(layout.schedule_of(rank, can, homes[static_cast<std::size_t>(rank)]));
    return result;
}

std::vector<std::int64_t> hard_counts(int ranks) { return {0, 1, ranks - 1, ranks, 2 * ranks + 3}; }

std::vector<std::vector<range>> hard_blocks(int ranks, collective what) {
    using count_of = std::function<std::int64_t(int rank)>;
    std::vector<std::vector<range>> all;
    const auto add = [&](std::int64_t gap, bool backwards, const count_of& count) {
        std::vector<range> blocks(static_cast<std::size_t>(ranks));
        std::int64_t end = 0;
        for (int n = 0; n < ranks; ++n) {
            const int rank = backwards ? ranks - 1 - n : n;
            blocks[static_cast<std::size_t>(rank)] = {end, end + count(rank)};
            end += count(rank) + gap;
        }
        all.push_back(std::move(blocks));
    };
    for (std::int64_t equal : hard_counts(ranks)) add(0, false, [&](int) { return equal; });
    add(5, false, [](int) { return 3; });  // one chunk of longer blocks
    add(2, true, [](int) { return 2; });
    if (what == collective::alltoall) return all;
    add(0, true, [](int rank) { return rank % 3 * 2; });
    add(0, false, [&](int rank) { return rank == ranks / 2 ? 2 * ranks + 3 : 0; });
    add(2, true, [&](int rank) { return rank == ranks / 2 ? 0 : 1 + rank % 4; });
    return all;
}

program_of_all random_program(const std::vector<hierarchy>& machines, dice& d) {
    const hierarchy& machine = d.pick(machines);
    const collective what = d.pick(all_collectives);
    const std::vector<stage> stages = random_stages(machine, what, d);
    const int root = static_cast<int>(d.below(static_cast<std::size_t>(machine.ranks())));
    program_of_all result = row_of(what).blocks
                                ? block_program(machine, stages, what, d.pick(hard_blocks(machine.ranks(), what)), root)
                                : vector_program(machine, stages, what, d.pick(hard_counts(machine.ranks())), 1, root);
    for (schedule& s : result.schedules) s = lower(s, {});
    return result;
}

}  // namespace terrace::detail::test
