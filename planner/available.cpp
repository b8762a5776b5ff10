#include "planner/available.hpp"

#include <algorithm>

#include "base/index.hpp"
#include "machine/devices.hpp"
#include "planner/policy.hpp"
#include "schedule/group_messages.hpp"

namespace terrace::detail {

namespace {

bool fits_torus(const hierarchy& machine, const stage& s, const algorithm& a) {
    const bool on_torus = s.levels.back() >= machine.torus_level();
    if (a.graph == message_graph::both_neighbours) return on_torus && s.levels.size() == 1;
    return !on_torus || s.levels.size() == 1 || a.graph == message_graph::one_neighbour;
}

bool shares_memory(const hierarchy& machine, const stage& s) {
    return std::all_of(s.levels.begin(), s.levels.end(), [&](int l) {
        return through_memory(machine, l) || machine.shape.uniform_size(l) == 1;  // such a level joins nothing
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

bool crowds(const algorithm& a, int size) noexcept {
    const bool with_all = a.graph == message_graph::all_at_once || a.provider == provider::shared_memory;
    return with_all && size > policy.most_exchanges_at_once;
}

bool worth_a_look(const algorithm& a, mode how, int size) {
    if (crowds(a, size)) return false;
    if (size <= policy.largest_group || a.graph == message_graph::one_neighbour) return true;
    const int small = policy.large_group + 1;
    const group_moves moves =
        read_programs(group::numbered(small), {a.up(how), a.startups(small), false}, policy.large_group);
    return moves.circulant || moves.provider_action.has_value();
}

}  // namespace terrace::detail
