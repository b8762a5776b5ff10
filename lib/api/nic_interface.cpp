#include "api/nic_interface.hpp"

#include <algorithm>
#include <tuple>

#include "base/index.hpp"

namespace terrace::detail {

std::string interface_of(const nic_set& nics, int rank, std::vector<std::string> interfaces) {
    if (nics.empty()) return {};
    const int nic = nics.of(rank);
    if (static_cast<int>(interfaces.size()) != nics.count_of(nics.node_of(nic))) return {};
    std::sort(interfaces.begin(), interfaces.end(), [](const std::string& a, const std::string& b) {
        return std::tuple(a.size(), a) < std::tuple(b.size(), b);
    });
    return interfaces[at(nics.rail_of(nic))];
}

}  // namespace terrace::detail
