#include <sys/stat.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/hosts.hpp"
#include "transport/bootstrap.hpp"
#include "transport/team.hpp"

namespace terrace::detail {

std::string this_node() {
    std::string boot;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, boot);
    struct stat memory {};
    if (::stat("/dev/shm", &memory) != 0) memory = {};
    return fmt::format("{} {} {}", boot, memory.st_dev, host_name());
}

std::string memory_apart(std::span<const std::string> nodes) {
    struct machine {
        std::vector<int> ranks;
        std::set<std::string> memories;
    };
    std::map<std::string, machine> machines;  // by the kernel's name for this run of itself
    for (std::size_t r = 0; r < nodes.size(); ++r) {
        std::istringstream words(nodes[r]);
        std::string boot, memory, host;
        if (!(words >> boot >> memory >> host)) continue;
        machines[boot].ranks.push_back(static_cast<int>(r));
        machines[boot].memories.insert(memory);
    }
    for (const auto& [boot, m] : machines)
        if (m.memories.size() > 1)
            return fmt::format("{} run on one machine with {} different /dev/shm, as in containers; let them share it",
                               ranks_named(m.ranks), m.memories.size());
    return {};
}

}  // namespace terrace::detail
