#include "topology/formats/slurm_blocks.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace terrace::detail {

namespace {

// Returns how many base blocks each size joins. Slurm requires powers of two, in ascending order.
std::vector<std::size_t> factors(const switch_network& n, const std::vector<slurm_block_size>& sizes) {
    std::vector<std::size_t> result;
    for (std::size_t i = 1; i < sizes.size(); ++i) {
        const int base = sizes.front().nodes, size = sizes[i].nodes;
        const int factor = size / base;
        if (size % base != 0 || (factor & (factor - 1)) != 0 || size <= sizes[i - 1].nodes)
            n.fail(sizes[i].where,
                   fmt::format("block size {} is no larger power of two times the base block size, {}", size, base));
        result.push_back(static_cast<std::size_t>(factor));
    }
    return result;
}

}  // namespace

void join_blocks(switch_network& n, const std::vector<slurm_block_size>& sizes) {
    const auto empty = [](const network_switch& s) { return s.nodes.empty(); };
    if (const auto left_out = std::erase_if(n.switches, empty); left_out > 0)
        n.notes.push_back(fmt::format("blocks without nodes are left out: {}", left_out));
    if (n.switches.empty()) n.fail({}, "no block has nodes; name the nodes of each block");
    n.levels = {"block"};
    n.notes.push_back(
        "Slurm's blocks have no rates and no kind of link; InfiniBand is assumed, also where a block is one NVLink "
        "domain");
    const std::size_t blocks = n.switches.size();
    std::size_t first = 0, inner = 1;  // first domain of the level below, and number of blocks in each of its domains
    const auto join = [&](std::string level, std::size_t factor) {
        const std::size_t end = n.switches.size(), step = factor / inner;
        for (std::size_t i = first; i < end; i += step) {
            network_switch joined{n.switches[i].where, fmt::format("{} {}", level, (i - first) / step + 1)};
            for (std::size_t b = i; b < std::min(i + step, end); ++b) joined.switches.push_back(n.switches[b].name);
            n.switches.push_back(std::move(joined));
        }
        first = end;
        inner = factor;
        n.levels.push_back(std::move(level));
    };
    int number = 0;
    for (const std::size_t factor : factors(n, sizes))
        if (factor > 1 && factor < blocks) join(++number == 1 ? "blocks" : fmt::format("blocks-{}", number), factor);
    if (blocks > 1) join("cluster", inner * (n.switches.size() - first));
}

}  // namespace terrace::detail
