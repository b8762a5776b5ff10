#include "planner/simulate/memory_stages.hpp"

#include <utility>

#include "base/index.hpp"

namespace terrace::detail::sim {

const sim_instr& memory_stages::instruction(std::int64_t chunk, const participant& p) const {
    return programs_.of(chunk).of_rank[at(p.who.rank)].instrs[p.instruction];
}

void memory_stages::arrive(std::int64_t chunk, const participant& p) {
    const int number = instruction(chunk, p).peer;
    arrivals& a = arrivals_[{chunk, number}];
    a.of = &programs_.of(chunk).instances[at(number)];
    a.who.push_back(p);
    if (a.who.size() == a.of->ranks) gather(chunk, number, a.of->latency);
}

void memory_stages::gather(std::int64_t chunk, int number, double after) {
    events_.add({.time = events_.now() + after, .what = event::gathered, .subject = number, .chunk = chunk});
}

std::vector<memory_stages::participant> memory_stages::gathered(std::int64_t chunk, int number) {
    arrivals& a = arrivals_[{chunk, number}];
    const stage_instance& s = *a.of;
    a.worked = 0;
    if (a.round == 0) {
        a.left = s.links.size() + 1;
        const participant& first = a.who.front();
        for (const auto& [link, bytes] : s.links) net_.enqueue(net_.over(link), {first.who, first.instruction, bytes});
    }
    if (a.round++ == s.rounds) return std::move(arrivals_.extract({chunk, number}).mapped().who);
    for (const participant& p : a.who) {
        const sim_instr& i = instruction(chunk, p);
        events_.add({.time = cpus_.work(p.who.rank, events_.now(), 0, a.round == 1 ? i.bytes : i.again),
                     .what = event::worked,
                     .subject = p.who.rank,
                     .lane = p.who.lane,
                     .instruction = p.instruction});
    }
    return {};
}

void memory_stages::worked(std::int64_t chunk, const participant& p) {
    const int number = instruction(chunk, p).peer;
    arrivals& a = arrivals_[{chunk, number}];
    if (++a.worked < a.of->ranks) return;
    if (a.round < a.of->rounds) gather(chunk, number, a.of->latency);
    else part_ended(chunk, number, a);
}

void memory_stages::link_passed(std::int64_t chunk, const participant& p) {
    const int number = instruction(chunk, p).peer;
    part_ended(chunk, number, arrivals_[{chunk, number}]);
}

void memory_stages::part_ended(std::int64_t chunk, int number, arrivals& a) {
    if (--a.left == 0) gather(chunk, number, a.of->closes ? a.of->latency : 0);
}

}  // namespace terrace::detail::sim
