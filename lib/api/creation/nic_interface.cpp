#include "api/creation/nic_interface.hpp"

#include <fmt/format.h>

#include "base/index.hpp"

namespace terrace::detail {

interface_choice interfaces_of(const nic_set& nics, int rank, const std::vector<network_interface>& judged) {
    std::vector<std::string> names, with_slower;
    for (const network_interface& i : judged) {
        if (i.left_out.empty()) names.push_back(i.name);
        if (i.left_out.empty() || i.slower) with_slower.push_back(i.name);
    }
    if (nics.empty() || names.empty()) return {names};
    const int nic = nics.of(rank), wanted = nics.count_of(nics.node_of(nic));
    for (const std::vector<std::string>& some : {names, with_slower})
        if (static_cast<int>(some.size()) == wanted) return {{some[at(nics.rail_of(nic))]}};
    return {names,
            fmt::format("this node has {} NIC{} in the plan, and {} of its interfaces {} in use, by all its ranks "
                        "alike: {}. UCX_NET_DEVICES gives each rank its own (terrace export --to nics)",
                        wanted, wanted == 1 ? "" : "s", names.size(), names.size() == 1 ? "is" : "are",
                        description(judged))};
}

}  // namespace terrace::detail
