#include "planner/simulate/program.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "planner/figures.hpp"
#include "schedule/machine_schedules.hpp"
#include "schedule/provider_stage.hpp"

namespace terrace::detail::sim {

namespace {

double bytes_of(range part) { return static_cast<double>(part.count() * float32_bytes); }

// Makes compact programs, since a simulation keeps those of all ranks.
class compiler {
public:
    compiler(const hierarchy& machine, const link_loads& links, double factor, std::int64_t chunks, std::int64_t most)
        : machine_(machine), links_(links), factor_(factor), chunks_(chunks), most_(most) {}

    void add(const schedule& s) {
        sim_program& p = made_.of_rank.emplace_back();
        p.order = lane_code(s);
        p.phases = s.phases;
        p.of_phase.resize(s.phases.size());
        p.instrs.reserve(s.instrs.size());
        std::int64_t steps = 0;
        for (const instr& i : s.instrs) {
            p.instrs.push_back(is_stage(i.what) ? stage_of(s, i) : small(i));
            // Copies before the first stage count as part of its phase.
            const auto first = std::ranges::find(s.phases, s.phases[i.phase]);
            ++p.of_phase[p.instrs.back().phase = static_cast<std::uint16_t>(first - s.phases.begin())];
            steps += i.peer < 0 || is_stage(i.what) ? 1 : segments_of(machine_, p.instrs.back().bytes * factor_);
        }
        steps_ += steps;
        made_.instrs += std::ssize(p.instrs);
        // Estimates the total from the ranks so far, excluding the longest: a root may send to all. A chunk counts even
        // if no rank has an instruction in it.
        longest_ = std::max(longest_, steps);
        const auto others = static_cast<double>(made_.of_rank.size() - 1);
        const double another = others > 0 ? static_cast<double>(steps_ - longest_) / others : 0;
        const double all = static_cast<double>(longest_) + another * (machine_.ranks() - 1);
        const double expected = std::max(1.0, all) * static_cast<double>(chunks_);
        if (expected > static_cast<double>(most_))
            throw plan_error(
                fmt::format("the programs of {} ranks would have about {:.3g} million instructions, "
                            "counting segments, in {} chunk{}, and a simulation has at most {} million; "
                            "simulate a smaller message, machine or group",
                            machine_.ranks(), expected / 1e6, chunks_, chunks_ == 1 ? "" : "s", most_ / 1'000'000));
    }

    sim_programs take() { return std::move(made_); }

private:
    static sim_instr base(const instr& i) { return {.what = i.what, .phase = i.phase, .peer = i.peer}; }

    // Returns the bytes that a message carries, or that a conversion reads and writes.
    static double of_wire(const instr& i) {
        const range part = i.what == action::recv ? i.dst.part : i.src.part;
        const auto encoded = static_cast<double>(wire_bytes(i.wire, part.count()));
        return i.peer >= 0 ? encoded : encoded + bytes_of(part);
    }

    sim_instr small(const instr& i) const {
        sim_instr made = base(i);
        const bool in_place = i.src.where == buffer::send && i.dst.where == buffer::recv && i.src.part == i.dst.part;
        if (i.wire != wire_type::exact) made.bytes = of_wire(i);
        else if (i.what == action::send) made.bytes = bytes_of(i.src.part);
        else if (i.what == action::copy) made.bytes = in_place ? 0 : 2 * bytes_of(i.dst.part);
        else if (i.what == action::reduce) made.bytes = (i.sources + 1) * bytes_of(i.dst.part);
        else made.bytes = bytes_of(i.dst.part);
        return made;
    }

    // Returns a stage in shared memory, with the bytes that the rank's processor reads and writes in each round.
    sim_instr stage_of(const schedule& s, const instr& i) {
        const group& g = s.groups[at(i.peer)];
        // In simulations the vector lies in slots, so no rank writes into a peer's result.
        const stage_work work(i.what, g.root(), sharing_of(i.sources > 0, i.src == i.dst, false));
        const auto touched = [&](int round) {
            if (round >= work.rounds()) return 0.0;
            const bool in_place = i.dst.where == i.src.where;
            return static_cast<double>(work.touched(round, g.position(), in_place, g.shards()) * float32_bytes);
        };
        sim_instr made = base(i);
        made.bytes = touched(0);
        made.again = touched(1);
        const auto [known, is_new] =
            instances_.try_emplace({i.channel, g.members().front()}, static_cast<int>(made_.instances.size()));
        if (is_new) made_.instances.push_back(instance_of(g, work));
        made.peer = known->second;
        return made;
    }

    stage_instance instance_of(const group& g, const stage_work& work) const {
        stage_instance made;
        made.ranks = g.members().size();
        made.rounds = work.rounds();
        made.closes = work.closes();
        int level = 0;
        for (const int member : g.members())
            level = std::max(level, machine_.shape.common_level(g.members()[0], member));
        made.latency = flag_time(machine_, level);

        std::map<int, double> through;
        const provider_stage all = memory_stage(work, g, false);
        for (const group_message& m : all.moves)
            for (const int link : links_.path(g.rank(m.from), g.rank(m.to))) {
                const double read = m.part * bytes_of(g.whole());
                through[link] = all.shared ? read : through[link] + read;
            }
        made.links.assign(through.begin(), through.end());
        return made;
    }

    const hierarchy& machine_;
    const link_loads& links_;
    double factor_;
    std::int64_t chunks_, most_;
    std::int64_t steps_ = 0, longest_ = 0;  // of all ranks so far, and of the longest
    sim_programs made_;
    std::map<std::pair<int, int>, int> instances_;  // by channel and first member
};

}  // namespace

std::uint32_t segments_of(const hierarchy& machine, double bytes) {
    const double pieces = std::ceil(bytes / static_cast<double>(machine.processors.segment));
    if (pieces <= 1 || on_gpus(machine)) return 1;
    return static_cast<std::uint32_t>(std::min<double>(pieces, most_simulated + 1));
}

sim_programs programs_of(const hierarchy& machine, const rule& how, collective what, std::int64_t count,
                         std::int64_t slot_bytes, bool reproducible, const link_loads& links, double factor,
                         std::int64_t chunks, std::int64_t most) {
    compiler made(machine, links, factor, chunks, most);
    const machine_schedules schedules(machine, how, what, count, slot_bytes, reproducible);
    for (int r = 0; r < machine.ranks(); ++r) made.add(schedules.of(r));
    return made.take();
}

}  // namespace terrace::detail::sim
