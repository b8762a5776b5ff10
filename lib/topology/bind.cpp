#include "topology/bind.hpp"

#include <hwloc.h>

namespace terrace::detail {

void bind_thread_to_core_from_end(int n) {
    hwloc_topology_t machine = nullptr;
    if (hwloc_topology_init(&machine) != 0) return;
    hwloc_cpuset_t allowed = hwloc_bitmap_alloc();
    if (hwloc_topology_load(machine) == 0 && hwloc_get_cpubind(machine, allowed, HWLOC_CPUBIND_PROCESS) == 0) {
        const int cores = hwloc_get_nbobjs_inside_cpuset_by_type(machine, allowed, HWLOC_OBJ_CORE);
        // hwloc counts only cores that the process may use as a whole.
        if (cores > 0) {
            const auto chosen = static_cast<unsigned>(cores - 1 - n % cores);
            const hwloc_obj_t core = hwloc_get_obj_inside_cpuset_by_type(machine, allowed, HWLOC_OBJ_CORE, chosen);
            hwloc_set_cpubind(machine, core->cpuset, HWLOC_CPUBIND_THREAD);
        }
    }
    hwloc_bitmap_free(allowed);
    hwloc_topology_destroy(machine);
}

}  // namespace terrace::detail
