#include "tools/terrace/commands.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/index.hpp"
#include "base/units.hpp"
#include "machine/link_rows.hpp"
#include "plan/routes.hpp"
#include "planner/planner.hpp"
#include "schedule/machine_schedules.hpp"
#include "schedule/schedule.hpp"
#include "tools/common/output.hpp"
#include "tools/common/table.hpp"
#include "tools/terrace/proof.hpp"
#include "tools/terrace/summary.hpp"

namespace terrace::detail {

namespace {

std::string text_of(const operand& o) {
    constexpr std::array names{"send", "recv", "scratch"};
    return fmt::format("{}[{}..{})", names[at(static_cast<int>(o.where))], o.part.begin, o.part.end);
}

std::string text_of(std::span<const operand> all, std::string_view between) {
    std::vector<std::string> texts;
    for (const operand& o : all) texts.push_back(text_of(o));
    return fmt::format("{}", fmt::join(texts, between));
}

std::string stage_operands(const schedule& s, const instr& i) {
    const group& g = s.groups[at(i.peer)];
    std::string text = fmt::format("group {}", fmt::join(g.members(), " "));
    // No other rank reads the vector of a reduction's root.
    const bool is_read = i.what != action::stage_reduce || i.sources == 0;
    if (is_read && !i.src.part.empty()) text += fmt::format(", gives {}", text_of(i.src));
    if (i.sources > 0) text += fmt::format(", own part from {}", text_of(s.sources_of(i), ", "));
    if (!i.dst.part.empty()) text += fmt::format(", gets {}", text_of(i.dst));
    return text;
}

std::string operands(const schedule& s, const instr& i) {
    switch (i.what) {
        case action::send: return fmt::format("{} to rank {}", text_of(i.src), i.peer);
        case action::recv: return fmt::format("{} from rank {}", text_of(i.dst), i.peer);
        case action::recv_reduce: return fmt::format("{} += from rank {}", text_of(i.dst), i.peer);
        case action::copy: return fmt::format("{} = {}", text_of(i.dst), text_of(i.src));
        case action::reduce: return fmt::format("{} = {}", text_of(i.dst), text_of(s.sources_of(i), " + "));
        default: return stage_operands(s, i);
    }
}

// Returns a rank's program as a table: each instruction with its operands, its step, its stage, and the instructions
// that it waits for.
std::string program_listing(const schedule& s) {
    std::vector<std::vector<std::size_t>> awaited(s.instrs.size());
    for (std::size_t n = 0; n < s.instrs.size(); ++n)
        for (const std::uint32_t later : s.successors_of(s.instrs[n])) awaited[later].push_back(n);
    table rows("><<><<");
    rows.add({"n", "instruction", "operands", "step", "stage", "waits for"});
    for (std::size_t n = 0; n < s.instrs.size(); ++n) {
        const instr& i = s.instrs[n];
        const phase& of = s.phases[i.phase];
        rows.add({fmt::format("{}", n), std::string(to_string(i.what)), operands(s, i), fmt::format("{}", i.step),
                  fmt::format("{} {}", of.stage, of.down ? "down" : "up"),
                  awaited[n].empty() ? "-" : fmt::format("{}", fmt::join(awaited[n], ", "))});
    }
    return rows.text();
}

void print_candidates(const plan_data& plan, collective what, const rule& chosen, const rule& at_size,
                      std::int64_t bytes) {
    constexpr std::size_t shown_candidates = 10;
    const std::vector<ranked> all = rank_candidates(plan.machine, bytes, what);
    table rows(">>>><<<");
    rows.add({"", "#", "predicted", "of limit", "lanes", "origin", "stages"});
    const auto add = [&](const std::string& mark, const std::string& place, const rule& r, const std::string& origin) {
        rows.add({mark, place, format_duration(r.predicted), percent_of_limit(r.limit, r.predicted), lanes_text(r),
                  origin, describe(plan.machine, r.stages)});
    };
    bool listed = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const bool is_chosen = all[i].how.stages == chosen.stages;
        listed |= is_chosen;
        if (i < shown_candidates || is_chosen || all[i].what.is_baseline())
            add(is_chosen ? "->" : "", fmt::format("{}", i + 1), is_chosen ? at_size : all[i].how, all[i].what.origin);
    }
    if (!listed) add("->", "-", at_size, "the plan");
    say("candidates ({}), each with its best lanes and chunk; -> is the plan's, with the plan's own lanes and chunk.\n"
        "Of the cheapest ones the planner chooses the fastest in simulations; among those as fast, what sends to the\n"
        "fewest at once (from 128 KiB on), then what costs the processors least.\n{}\n",
        all.size(), rows.text());
}

void print_stages(const plan_data& plan, collective what, const rule& chosen, const prediction& p) {
    table rows("<>>");
    rows.add({"stage", "time", "start-ups in it"});
    for (std::size_t s = 0; s < chosen.stages.size(); ++s)
        rows.add({stage_text(plan.machine, chosen.stages[s]), format_duration(p.stages[s].time),
                  format_duration(p.stages[s].latency)});
    const int orders = routes_of(plan.machine, chosen.stages).count();
    say("stages{} of one {}{}\n{}\n", what == collective::allreduce ? ", up and down," : "",
        chosen.chunk == 0 ? "message" : fmt::format("chunk of {}", format_bytes(chosen.chunk)),
        orders == 0 ? "" : fmt::format("; its parts take {} orders side by side, this is the longest", orders),
        rows.text());
}

void print_links(const plan_data& plan, const prediction& p) {
    const link_rows links(plan.machine);
    table rows("<<>>>");
    rows.add({"resource", "rate", "bytes", "busy", "of the call"});
    for (const link_cost& l : p.links) {
        const level& at = plan.machine.levels[static_cast<std::size_t>(links.level(l.row))];
        const std::string name = links.is_level(l.row)      ? fmt::format("link into {} (child {})", at.name, l.child)
                                 : l.row == links.nic_row() ? fmt::format("NIC {} of {}", l.child, at.name)
                                                            : fmt::format("spine of {} (rail {})", at.name, l.child);
        rows.add({name, format_bandwidth(links.rate(l.row, l.child)) + (at.bandwidth_assumed ? " *" : ""),
                  fmt::format("{:.4g} MB", l.bytes / 1e6), format_duration(l.time),
                  p.time > 0 ? fmt::format("{:.0f} %", 100 * l.time / p.time) : "-"});
    }
    rows.add({"processor of the busiest rank", "", "", format_duration(p.cpu_time),
              p.time > 0 ? fmt::format("{:.0f} %", 100 * p.cpu_time / p.time) : "-"});
    say("the busiest link of each level, in its busier direction, and the busiest processor\n{}\n", rows.text());
}

// Returns the resource that limits the speed of the call.
std::string bottleneck(const plan_data& plan, const rule& chosen, const prediction& p) {
    double startups = 0, sum = 0;
    for (const stage_cost& s : p.stages) startups += s.latency, sum += s.time;
    const auto link = std::ranges::max_element(p.links, {}, &link_cost::time);
    if (p.time <= 0) return "nothing to do";
    if (link->time >= 0.5 * p.time || (link->time > p.cpu_time && link->time > startups))
        return "the " + link_rows(plan.machine).text(link->row);
    if (p.cpu_time > startups) return "processor of the busiest rank: messages and reductions";
    if (chosen.chunk == 0 || startups > 0.5 * sum) return "start-ups: messages that wait for one another";
    return "the lanes: stages of one chunk wait for one another";
}

// Prints the program of a rank for the first chunk.
void print_program(const plan_data& plan, collective what, const rule& chosen, std::int64_t bytes, int rank) {
    const hierarchy& machine = plan.machine;
    if (rank >= machine.ranks())
        throw usage_error(fmt::format("--rank {}: the plan has ranks 0 to {}", rank, machine.ranks() - 1));
    const std::int64_t slot = slot_bytes(plan);
    const slicing chunks = slices_of(machine, chosen, what, bytes, slot);
    const std::int64_t count = chunks.chunks > 1 ? chunks.chunk : chunks.tail;
    say("{} of {} by {}\nrank {}, the first of {} chunk{}: {} float32{}\n{}", to_string(what), format_bytes(bytes),
        describe(machine, chosen.stages), rank, chunks.chunks, chunks.chunks == 1 ? "" : "s", count,
        row_of(what).blocks ? " of each block" : "",
        program_listing(machine_schedules(machine, chosen, what, count, slot).of(rank)));
}

}  // namespace

int explain_command::run() const {
    const std::int64_t bytes = call.size();
    const plan_data plan = read_runnable_plan(plan_file);
    const collective what = call.what();
    const rule& chosen = plan.choose(what, bytes);
    if (rank) {
        print_program(plan, what, chosen, bytes, *rank);
        return 0;
    }
    const prediction p = predict(plan.machine, chosen.stages, bytes, chosen.lanes, chosen.chunk, what);
    rule at_size = chosen;
    at_size.predicted = p.time;
    at_size.limit = limit(plan.machine, bytes, what);

    say("{}: {} of {} over {} ({})\n{}\n", plan.name, call.collective, format_bytes(bytes), ranks_text(plan.machine),
        shape_text(plan.machine.shape), rates_text(plan.machine));
    say("runs by the rule up to {}: {}\n", bound_text(chosen.up_to), describe(plan.machine, chosen.stages));
    say("  predicted {}, limit {} ({} of it), lanes {}\n", format_duration(p.time), format_duration(at_size.limit),
        percent_of_limit(at_size.limit, p.time), lanes_text(chosen));
    if (chosen.simulated > 0) say("  simulated {} at {}\n", format_duration(chosen.simulated), format_bytes(chosen.at));
    say("\n");
    print_stages(plan, what, chosen, p);
    print_links(plan, p);
    say("bottleneck: {}\n\n", bottleneck(plan, chosen, p));
    print_candidates(plan, what, chosen, at_size, bytes);
    return 0;
}

}  // namespace terrace::detail
