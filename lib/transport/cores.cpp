#include "transport/cores.hpp"

#include <sched.h>

#include <array>
#include <fstream>
#include <vector>

#include "base/hosts.hpp"
#include "base/index.hpp"

namespace terrace::detail {

namespace {

// A machine, whatever its containers call themselves, and the cores that a rank may run on there.
struct cpu_set {
    std::array<char, 36> boot{};  // the kernel's own name for this run of itself
    cpu_set_t cores;
};

cpu_set own_cpu_set() {
    cpu_set own;
    if (!std::ifstream("/proc/sys/kernel/random/boot_id").read(own.boot.data(), own.boot.size()))
        host_name().copy(own.boot.data(), own.boot.size());
    CPU_ZERO(&own.cores);
    if (sched_getaffinity(0, sizeof own.cores, &own.cores) != 0) CPU_SET(0, &own.cores);  // more than a set holds
    return own;
}

}  // namespace

machine_use use_of_machine(team& ranks) {
    const cpu_set own = own_cpu_set();
    std::vector<cpu_set> all(at(ranks.size()));
    ranks.gather_all(&own, all.data(), sizeof own);
    std::erase_if(all, [&](const cpu_set& s) { return s.boot != own.boot; });
    cpu_set_t together;
    CPU_ZERO(&together);
    for (const cpu_set& s : all) CPU_OR(&together, &together, &s.cores);
    return {static_cast<int>(all.size()), CPU_COUNT(&together)};
}

}  // namespace terrace::detail
