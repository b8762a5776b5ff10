// Levels and network links from the parts of a node.

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "topology/formats.hpp"
#include "topology/node.hpp"

namespace terrace::detail::node_test {
namespace {

using kind = part::kind;

std::string levels_of(hardware h) {
    const hierarchy levels = place_ranks(std::move(h), {}, "node").levels;
    std::string text;
    for (const level& l : levels.levels) text += l.name + ":" + std::string(to_string(l.medium)) + " ";
    return text + shape_text(levels.shape);
}

hardware synthetic_hardware(const char* line) { return read_node(*find_format("synthetic"), line); }

part in(kind what, std::vector<part> children, double link = 0) {
    return {.what = what, .link = link, .children = std::move(children)};
}

part gpu() { return {.what = kind::gpu}; }

part card(double rate) { return {.what = kind::nic, .link = 15.75e9, .rate = rate, .rdma = true}; }

TEST(node, levels_come_from_the_inside_whatever_holds_what) {
    EXPECT_EQ(levels_of(synthetic_hardware("package:1 numa:2 l3:2 core:2")), "l3:shm numa:shm node:shm 2 x 2 x 2");
    EXPECT_EQ(levels_of(synthetic_hardware("package:1 l3:1 numa:2 core:4")), "numa:shm node:shm 4 x 2");
    EXPECT_EQ(levels_of(synthetic_hardware("package:2 l3:1 numa:2 core:4")), "numa:shm socket:shm node:bus 4 x 2 x 2");
    EXPECT_EQ(levels_of(synthetic_hardware("package:2 core:4")), "socket:shm node:bus 4 x 2");  // one memory
}

// Parts of a socket without memory beside a NUMA node; then a socket without memory beside one with memory.
TEST(node, cores_without_memory_join_in_the_next_part) {
    const auto l3 = [] { return in(kind::cache, {{.what = kind::core}, {.what = kind::core}}); };
    const auto numa = [&] { return in(kind::numa, {l3(), l3()}); };
    const auto levels = [](part socket, part other) {
        return levels_of({in(kind::machine, {std::move(socket), std::move(other)}), "nvlink", {}});
    };
    EXPECT_EQ(levels(in(kind::package, {numa(), l3(), l3()}), in(kind::package, {numa(), numa()})),
              "l3:shm numa:shm socket:shm node:bus 2 x 2 x 2 x 2");
    EXPECT_EQ(levels(in(kind::package, {numa()}), in(kind::package, {l3(), l3(), l3()})),
              "l3:shm socket:shm node:bus 2 x 2-3 x 2");
    const part core{.what = kind::core};  // without a shared L3, as small cores
    EXPECT_EQ(levels_of({in(kind::machine, {in(kind::package, {l3(), core, core, core})}), "nvlink", {}}),
              "l3:shm node:shm 2-3 x 2");
}

// Quads of GPUs with NVLink, each over two PCIe switches; below host bridges, which give the level its name, or not.
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

uplink up(std::vector<part> children) {
    hardware h{in(kind::machine, std::move(children)), "nvlink", {}};
    return uplink_of(place_ranks(std::move(h), {}, "node").parts.machine).value_or(uplink{});
}

TEST(node, the_uplink_is_what_ranks_use) {
    const uplink one = up({gpu(), card(12.5e9), card(12.5e9), card(12.5e9)});
    EXPECT_EQ(one.slots.size(), 1U);
    EXPECT_DOUBLE_EQ(one.bandwidth, 12.5e9);
    const part near = in(kind::bus_switch, {gpu(), gpu(), card(12.5e9)});
    const uplink nearest = up({near, near, card(1.25e8), card(1.25e8)});
    EXPECT_EQ(nearest.slots.size(), 2U);
    EXPECT_DOUBLE_EQ(nearest.bandwidth, 25e9);
}

TEST(node, the_uplink_is_no_more_than_slots_carry) {
    const part slot = in(kind::slot, {card(12.5e9), card(12.5e9)}, 15.75e9);
    const uplink two = up({gpu(), gpu(), gpu(), gpu(), slot, slot});
    EXPECT_DOUBLE_EQ(two.bandwidth, 31.5e9);
    EXPECT_DOUBLE_EQ(two.with_ports(5e9), 20e9);
    EXPECT_DOUBLE_EQ(two.with_ports(12.5e9), 31.5e9);
    EXPECT_DOUBLE_EQ(up({gpu(), card(25e9)}).bandwidth, 15.75e9);
}

}  // namespace
}  // namespace terrace::detail::node_test
