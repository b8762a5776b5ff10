#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "transport/agreement.hpp"
#include "transport/bootstrap.hpp"

namespace terrace::detail {

std::string this_node() {
    std::array<char, 65> host{};  // Linux has no longer names
    if (::gethostname(host.data(), host.size() - 1) != 0) host = {};
    std::string boot;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, boot);
    struct stat memory {};
    if (::stat("/dev/shm", &memory) != 0) memory = {};
    return fmt::format("{} {} {}", boot, memory.st_dev, host.data());
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
