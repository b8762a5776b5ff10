// What becomes of a node's parts: levels, and links to the network.

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "topology/hwloc_xml.hpp"
#include "topology/node.hpp"

namespace terrace {
namespace {

using kind = part::kind;

std::string levels_of(hardware h) {
    const hierarchy levels = place_ranks(std::move(h), {}, "node").levels;
    std::string text;
    for (const level& l : levels.levels) text += l.name + ":" + std::string(to_string(l.medium)) + " ";
    return text + shape_text(levels.shape);
}

part in(kind what, std::vector<part> children, double link = 0) {
    return {.what = what, .link = link, .children = std::move(children)};
}

part gpu() { return {.what = kind::gpu}; }

TEST(node, levels_come_from_the_inside_whatever_holds_what) {
    EXPECT_EQ(levels_of(synthetic_hardware("package:1 numa:2 l3:2 core:2")), "l3:shm numa:shm node:shm 2 x 2 x 2");
    EXPECT_EQ(levels_of(synthetic_hardware("package:1 l3:1 numa:2 core:4")), "numa:shm node:shm 4 x 2");
    EXPECT_EQ(levels_of(synthetic_hardware("package:2 l3:1 numa:2 core:4")), "numa:shm socket:shm node:bus 4 x 2 x 2");
    EXPECT_EQ(levels_of(synthetic_hardware("package:2 core:4")), "socket:shm node:bus 4 x 2");  // one memory
}

// Quads of NVLink over two PCIe switches each; then over sockets, whose groups they are.
TEST(node, levels_have_the_names_of_equal_groups) {
    for (const auto& [outer, expected] : {std::pair{kind::root, "host-bridge:nvlink node:bus 4 x 2"},
                                          {kind::machine, "nvlink:nvlink node:bus 4 x 2"}}) {
        const part quad = in(outer, {in(kind::bus_switch, {gpu(), gpu()}), in(kind::bus_switch, {gpu(), gpu()})});
        hardware h{in(kind::machine, {quad, quad}), "nvlink", {}};
        for (int g = 0; g < 8; ++g)
            for (int peer = g / 4 * 4; peer < g / 4 * 4 + 4; ++peer)
                if (peer != g) h.wires.push_back({g, peer, 25e9});
        EXPECT_EQ(levels_of(std::move(h)), expected);
    }
}

}  // namespace
}  // namespace terrace
