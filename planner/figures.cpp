#include "planner/figures.hpp"

#include "base/index.hpp"
#include "planner/devices.hpp"

namespace terrace::detail {

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

std::vector<figure> assumed_figures(const hierarchy& machine) {
    std::vector<figure> all = figures_of(machine);
    std::erase_if(all, [](const figure& f) { return !f.assumed; });
    return all;
}

hierarchy with_figure(hierarchy machine, const figure& f, double factor) {
    level& of = machine.levels[at(f.level)];
    switch (f.what) {
        case figure::fact::bandwidth:
            of.bandwidth *= factor, of.bandwidth_assumed = false;
            for (double& rate : of.rates) rate *= factor;
            if (f.level == machine.node_levels())
                for (double& rate : machine.nics.rates) rate *= factor;  // they make up the node's link
            break;
        case figure::fact::latency: of.latency *= factor, of.latency_assumed = false; break;
        case figure::fact::overhead: of.overhead *= factor, of.overhead_assumed = false; break;
        case figure::fact::reduction: machine.processors.reduction = f.value * factor; break;
    }
    return machine;
}

}  // namespace terrace::detail
