#include "transport/shm/cores.hpp"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <vector>

#include "executor/transport.hpp"

namespace terrace {

namespace {

// A machine, whatever its containers call themselves, and the cores that a rank may run on there.
struct seat {
    std::array<char, 36> boot{};  // the kernel's own name for this run of itself
    cpu_set_t cores;
};

seat own_seat() {
    seat s;
    if (!std::ifstream("/proc/sys/kernel/random/boot_id").read(s.boot.data(), s.boot.size()))
        gethostname(s.boot.data(), s.boot.size());
    CPU_ZERO(&s.cores);
    if (sched_getaffinity(0, sizeof s.cores, &s.cores) != 0) CPU_SET(0, &s.cores);  // more cores than a set holds
    return s;
}

}  // namespace

gathering_all gathering_over(transport& net) {
    return [&net](const void* mine, void* all, std::size_t bytes) { net.gather_all(mine, all, bytes); };
}

machine_use use_of_machine(int size, const gathering_all& gather_all) {
    const seat mine = own_seat();
    std::vector<seat> all(static_cast<std::size_t>(size));
    gather_all(&mine, all.data(), sizeof mine);
    std::erase_if(all, [&](const seat& s) { return s.boot != mine.boot; });
    cpu_set_t together;
    CPU_ZERO(&together);
    for (const seat& s : all) CPU_OR(&together, &together, &s.cores);
    return {static_cast<int>(all.size()), CPU_COUNT(&together)};
}

int shared_cores(int size, const gathering_all& gather_all) {
    const machine_use use = use_of_machine(size, gather_all);
    return use.ranks == size && use.crowded() ? use.cores : 0;
}

}  // namespace terrace
