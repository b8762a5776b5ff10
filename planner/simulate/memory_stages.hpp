#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "planner/simulate/connections.hpp"
#include "planner/simulate/events.hpp"
#include "planner/simulate/processor_times.hpp"
#include "planner/simulate/program.hpp"

namespace terrace::detail::sim {

/// Stages in memory that ranks of a node share. A round begins when all ranks have arrived. Each rank then does its
/// work of the round. In the first round, every link also begins to pass the data that are read over it. When all
/// rounds and links are done, all ranks leave.
class memory_stages {
public:
    /// A rank's part in a stage instance.
    struct participant {
        lane_id who;
        std::uint32_t instruction = 0;
    };

    memory_stages(const call_programs& programs, processor_times& cpus, connections& net, event_queue& events)
        : programs_(programs), cpus_(cpus), net_(net), events_(events) {}

    /// Records that a rank's lane begins the stage.
    void arrive(std::int64_t chunk, const participant& p) {
        const int number = instruction(chunk, p).peer;
        arrivals& a = arrivals_[{chunk, number}];
        a.of = &programs_.of(chunk).of->instances[at(number)];
        a.who.push_back(p);
        if (a.who.size() == a.of->ranks) gather(chunk, number, a.of->latency);
    }

    /// Records that a rank's lane has finished its work of a round.
    void worked(std::int64_t chunk, const participant& p) {
        const int number = instruction(chunk, p).peer;
        arrivals& a = arrivals_[{chunk, number}];
        if (++a.worked < a.of->ranks) return;
        if (a.round < a.of->rounds) gather(chunk, number, a.of->latency);
        else part_ended(chunk, number);
    }

    /// Records that a link has passed all its data of the stage of `p`.
    void link_passed(std::int64_t chunk, const participant& p) { part_ended(chunk, instruction(chunk, p).peer); }

    /// Follows event::gathered: begins the next round. After the last round it returns the participants, whose stage is
    /// complete; otherwise nothing.
    std::vector<participant> gathered(std::int64_t chunk, int number) {
        arrivals& a = arrivals_[{chunk, number}];
        const stage_instance& s = *a.of;
        const double factor = programs_.of(chunk).factor;
        a.worked = 0;
        if (a.round == 0) {
            a.left = s.links.size() + 1;
            const participant& first = a.who.front();
            for (const auto& [link, bytes] : s.links)
                net_.enqueue(net_.over(link), {first.who, first.instruction, bytes * factor});
        }
        if (a.round++ == s.rounds) return std::move(arrivals_.extract({chunk, number}).mapped().who);
        for (const participant& p : a.who) {
            const sim_instr& i = instruction(chunk, p);
            const double bytes = (a.round == 1 ? i.bytes : i.again) * factor;
            events_.add({.time = cpus_.work(p.who.rank, events_.now(), 0, bytes),
                         .subject = p.who.rank,
                         .lane = p.who.lane,
                         .instruction = p.instruction,
                         .what = event::worked});
        }
        return {};
    }

private:
    struct arrivals {
        const stage_instance* of = nullptr;
        std::vector<participant> who;
        std::size_t worked = 0;  // ranks that have finished this round
        int round = 0;           // number of rounds begun
        std::size_t left = 0;    // links that have data left to pass, plus one for the work of all rounds
    };

    const sim_instr& instruction(std::int64_t chunk, const participant& p) const {
        return programs_.of(chunk).of->of_rank[at(p.who.rank)].instrs[p.instruction];
    }
    void gather(std::int64_t chunk, int number, double after) {
        events_.add({.time = events_.now() + after,
                     .subject = number,
                     .chunk = static_cast<std::int32_t>(chunk),
                     .what = event::gathered});
    }
    void part_ended(std::int64_t chunk, int number) {
        arrivals& a = arrivals_[{chunk, number}];
        if (--a.left == 0) gather(chunk, number, a.of->closes ? a.of->latency : 0);
    }

    const call_programs& programs_;
    processor_times& cpus_;
    connections& net_;
    event_queue& events_;
    std::map<std::pair<std::int64_t, int>, arrivals> arrivals_;  // by chunk and number of the instance
};

}  // namespace terrace::detail::sim
