#include "planner/figures.hpp"

#include "base/index.hpp"
#include "planner/policy.hpp"

namespace terrace::detail {

double access_time(const hierarchy& machine) noexcept {
    constexpr int accesses = 3;  // two read, one written
    return reduce_time(machine) / accesses;
}

double reduce_time(const hierarchy& machine) noexcept {
    if (machine.processors.reduction > 0) return 1 / machine.processors.reduction;
    return on_gpus(machine) ? 1 / policy.gpu_reduces : 1 / policy.core_reduces;
}

double flag_time(const hierarchy& machine, int l) noexcept {
    return policy.flag_of_latency * machine.levels[at(l)].latency;
}

std::vector<figure> figures_of(const hierarchy& machine) {
    using enum figure::fact;
    std::vector<figure> all;
    const auto add = [&](figure::fact what, int level, double value, bool assumed) {
        if (value > 0) all.push_back({what, level, value, assumed});
    };
    for (int l = 0; l < machine.depth(); ++l) {
        const level& of = machine.levels[at(l)];
        add(bandwidth, l, of.bandwidth, of.bandwidth_assumed);
        add(latency, l, of.latency, of.latency_assumed);
        add(overhead, l, of.overhead, of.overhead_assumed);
    }
    add(reduction, 0, 1 / reduce_time(machine), machine.processors.reduction == 0);
    return all;
}

hierarchy with_figure(hierarchy machine, const figure& f, double factor) {
    level& of = machine.levels[at(f.level)];
    switch (f.what) {
        case figure::fact::bandwidth:
            of.bandwidth *= factor, of.bandwidth_assumed = false;
            for (double& rate : of.rates) rate *= factor;
            if (f.level == machine.node_levels())
                for (double& rate : machine.nics.rates) rate *= factor;  // NICs are part of the node's link
            break;
        case figure::fact::latency: of.latency *= factor, of.latency_assumed = false; break;
        case figure::fact::overhead: of.overhead *= factor, of.overhead_assumed = false; break;
        case figure::fact::reduction: machine.processors.reduction = f.value * factor; break;
    }
    return machine;
}

}  // namespace terrace::detail
