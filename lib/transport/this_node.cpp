#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "transport/bootstrap.hpp"

namespace terrace::detail {

std::string this_node() {
    std::array<char, 65> host{};  // Linux has no longer names
    if (::gethostname(host.data(), host.size() - 1) != 0) host = {};
    std::string boot;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, boot);
    struct stat memory {};
    if (::stat("/dev/shm", &memory) != 0) memory = {};
    return fmt::format("{} {} {}", host.data(), boot, memory.st_dev);
}

}  // namespace terrace::detail
