#include "planner/phase_setting.hpp"

#include <numeric>

#include "base/index.hpp"
#include "planner/devices.hpp"

namespace terrace::detail {

int phase_setting::level_at(int height) const { return where.tiers[at(height)].level; }

device_rates phase_setting::rates_on(const level& l) const {
    if (!on_gpus(machine)) return {.step = l.latency, .bandwidth = l.bandwidth};
    return provider == provider::mpi ? mpi_rates(l) : nccl_rates(l);
}

double phase_setting::slowness(const level& l) const { return l.bandwidth / rates_on(l).bandwidth; }

double phase_setting::rate(std::size_t sample, int height) const {
    const int l = level_at(height);
    return machine.rate(l, machine.shape.domain_of(l - 1, samples.ranks()[sample])) / slowness(machine.levels[at(l)]);
}

double phase_setting::nic_rate(std::size_t sample) const {
    return machine.nics.rate(machine.nics.of(samples.ranks()[sample])) / network_slowness();
}

double phase_setting::network_slowness() const { return slowness(machine.levels[at(machine.node_levels())]); }

bool phase_setting::on_ring(int height) const { return machine.levels[at(level_at(height))].ring; }

double phase_setting::ring_share(int height) const { return machine.ring_share(level_at(height)); }

int phase_setting::level_between(const sample_place& p, int a, int b) const {
    const int h = where.from;
    if (where.to == h + 1) return level_at(h);
    const int one = samples.first_rank(where, h, p.first + a);
    const int other = samples.first_rank(where, h, p.first + b);
    return machine.shape.common_level(one, other);
}

int phase_setting::outermost_joining() const {
    int h = where.to - 1;
    while (h > where.from && machine.shape.uniform_size(level_at(h)) == 1) --h;
    return level_at(h);
}

message_load phase_setting::messages(double part, int level, double count) const {
    const terrace::detail::level& met = machine.levels[at(level)];
    const bool by_nccl = provider != provider::mpi && on_gpus(machine);
    const auto segment = static_cast<float>(by_nccl ? 0 : machine.processors.segment);
    return {static_cast<float>(part), static_cast<float>(met.overhead), segment, count};
}

double phase_setting::copy_time(int level) const {
    return through_memory(machine, level) ? 2 * access_time(machine) : 0;
}

double phase_setting::handling_time(int level) const {
    const bool passes_up = down ? at_root == root_part::relieved : !only_at_root(at_root);
    const bool adds =
        passes_up && !exchanges && where.how != mode::replicate;  // there, a rank may only take part at the end
    return (adds ? reduce_time(machine) : 0) + 2 * copy_time(level);
}

double phase_setting::owned_by(int first, int positions, int size) const {
    if (blocks.empty()) return static_cast<double>(positions) / size;
    const auto own = blocks.begin() + first;
    return std::accumulate(own, own + positions, 0.0) / std::accumulate(blocks.begin(), blocks.end(), 0.0);
}

}  // namespace terrace::detail
