#include "planner/available.hpp"

#include <algorithm>

#include "base/index.hpp"
#include "planner/devices.hpp"

namespace terrace::detail {

namespace {

bool fits_torus(const hierarchy& machine, const stage& s, const algorithm& a) {
    const bool on_torus = s.levels.back() >= machine.torus_level();
    if (a.graph == message_graph::both_neighbours) return on_torus && s.levels.size() == 1;
    return !on_torus || s.levels.size() == 1 || a.graph == message_graph::one_neighbour;
}

bool shares_memory(const hierarchy& machine, const stage& s) {
    return std::all_of(s.levels.begin(), s.levels.end(), [&](int l) {
        return through_memory(machine, l) || machine.shape.uniform_size(l) == 1;  // which joins nothing
    });
}

bool nccl_knows_groups(const hierarchy& machine, const stage& s) {
    for (int l = 0; l <= s.levels.back(); ++l)
        if (!machine.shape.uniform_size(l)) return false;
    return s.levels.back() < machine.torus_level() && s.shares.empty();
}

}  // namespace

bool available(const hierarchy& machine, const stage& s, const algorithm& a) {
    if (!a.supports(s.how) || !fits_torus(machine, s, a)) return false;
    if (a.graph == message_graph::node_rings) return false;  // a baseline; stages use all NICs with less traffic
    if (!follows_buffers(a.provider)) return true;
    if (on_gpus(machine) != (a.provider == provider::nccl)) return false;
    if (!on_gpus(machine)) return shares_memory(machine, s);
    const auto has_rates = [&](int l) { return machine.levels[at(l)].nccl.has_value(); };
    return nccl_knows_groups(machine, s) && std::all_of(s.levels.begin(), s.levels.end(), has_rates);
}

bool available_over_mpi(const hierarchy& machine, const stage& s, const algorithm& a) {
    const auto has_rates = [&](int l) { return machine.levels[at(l)].mpi.has_value(); };
    return on_gpus(machine) && a.sends() && std::all_of(s.levels.begin(), s.levels.end(), has_rates);
}

}  // namespace terrace::detail
