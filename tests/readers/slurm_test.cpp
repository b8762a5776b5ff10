// Networks of Slurm: topology.conf and topology.yaml.

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "base/hosts.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "support/refusal.hpp"
#include "support/temporary.hpp"
#include "topology/formats.hpp"
#include "topology/network.hpp"
#include "topology/restrict.hpp"

namespace terrace::detail::slurm_test {
namespace {

using names = std::vector<std::string>;

network_levels slurm_levels(const std::string& name, const std::string& text, const read_options& options,
                            const std::optional<uplink>& nodes = {}) {
    const std::filesystem::path file = temporary(name);
    write_atomically(file, text);
    const std::string_view format = name.ends_with(".yaml") ? "slurm_yaml" : "slurm";
    return levels_of(read_network(*find_format(format), file.string(), options), nodes, options.hosts);
}

hierarchy slurm(const std::string& text, const names& hosts = {}, const std::optional<uplink>& nodes = {}) {
    return slurm_levels("topology.conf", text, {.read_node = read_node, .hosts = hosts}, nodes).machine;
}

TEST(slurm_conf, speeds) {
    const hierarchy h = slurm(
        "SwitchName=a Nodes=n[0-1] LinkSpeed=100\nSwitchName=b Nodes=n[2-3] LinkSpeed=40\n"
        "SwitchName=top Switches=a,b\n");
    EXPECT_EQ(h.levels[0].rates, (std::vector{12.5e9, 12.5e9, 5e9, 5e9}));
    EXPECT_TRUE(h.levels[0].bandwidth_assumed);     // Slurm gives no unit
    EXPECT_DOUBLE_EQ(h.levels[1].bandwidth, 25e9);  // nonblocking
    for (const auto& [hosts, speed] : {std::pair{"n[0-1]", 12.5e9}, {"n[2-3]", 5e9}}) {
        const hierarchy job = restricted(h, parse_hostlist(hosts));
        EXPECT_DOUBLE_EQ(job.levels[0].bandwidth, speed) << hosts;
        EXPECT_TRUE(job.levels[0].rates.empty());
    }
    const hierarchy exact = slurm("SwitchName=a Nodes=n[0-1] LinkSpeed=25Gbit/s\n");
    EXPECT_DOUBLE_EQ(exact.levels[0].bandwidth, 25e9 / 8);
    EXPECT_FALSE(exact.levels[0].bandwidth_assumed);
    EXPECT_EQ(slurm("SwitchName=a Nodes=n[0-1] LinkSpeed=2e16B/s\n").levels[0].bandwidth, 2e16);
}

// Two cards with two ports each, one in a slow slot. Slots do not limit the levels above nodes.
TEST(slurm_conf, speeds_are_no_more_than_slots_carry) {
    const uplink nodes{fabric::infiniband, 31.5e9, true, {{2, 15.75e9}, {2, 31.5e9}}};
    const hierarchy h = slurm(
        "SwitchName=a Nodes=n[0-1] LinkSpeed=100\nSwitchName=b Nodes=n[2-3] LinkSpeed=50\n"
        "SwitchName=top Switches=a,b LinkSpeed=400\n",
        {}, nodes);
    EXPECT_EQ(h.levels[0].rates, (std::vector{40.75e9, 40.75e9, 25e9, 25e9}));
    EXPECT_EQ(h.levels[1].bandwidth, 50e9);
}

// A leaf switch beside a spine has only its own link, also if the level of spines is left out.
TEST(slurm_conf, speeds_of_switches_at_several_heights) {
    const hierarchy h = slurm(
        "SwitchName=a Nodes=n[0-7] LinkSpeed=100\nSwitchName=b Nodes=m0 LinkSpeed=100\n"
        "SwitchName=c Nodes=m1 LinkSpeed=100\nSwitchName=spine Switches=b,c LinkSpeed=50\n"
        "SwitchName=top Switches=a,spine LinkSpeed=200\n");
    EXPECT_EQ(h.levels[1].rates, (std::vector{25e9, 6.25e9, 6.25e9}));
    EXPECT_EQ(restricted(h, parse_hostlist("n[0-7],m0")).levels[1].rates, (std::vector{25e9, 6.25e9}));
}

network_levels network_of(const std::string& text, std::optional<link_unit> unit = {}) {
    return slurm_levels("topology.conf", text, {.read_node = read_node, .unit = unit});
}

// LinkSpeed has no unit, so one unit is found for the whole file.
TEST(slurm_conf, one_unit_for_all_switches) {
    const auto leaves_and_spine = [](int leaf, int spine) {
        return "SwitchName=a Nodes=n[0-1] LinkSpeed=" + std::to_string(leaf) +
               "\nSwitchName=b Nodes=n[2-3] LinkSpeed=" + std::to_string(leaf) +
               "\nSwitchName=s Switches=a,b LinkSpeed=" + std::to_string(spine) + "\n";
    };
    struct row {
        int leaf, spine;
        std::optional<link_unit> unit;
        double node, uplink;
        std::size_t notes;
    };
    for (const row& r : {row{800, 3200, {}, 100e9, 400e9, 1}, row{10'000, 40'000, {}, 1.25e9, 5e9, 1},
                         row{999, 1000, {}, 999e9 / 8, 125e9, 1}, row{100, 400, link_unit::mbit, 12.5e6, 50e6, 0},
                         row{800, 400, link_unit::gbit, 100e9, 50e9, 1}}) {
        const network_levels n = network_of(leaves_and_spine(r.leaf, r.spine), r.unit);
        EXPECT_DOUBLE_EQ(n.machine.levels[0].bandwidth, r.node) << r.leaf;
        EXPECT_DOUBLE_EQ(n.machine.levels[1].bandwidth, r.uplink) << r.leaf;
        EXPECT_EQ(n.machine.levels[0].bandwidth_assumed, !r.unit) << r.leaf;
        EXPECT_EQ(n.notes.size(), r.notes) << r.leaf;
    }
}

TEST(slurm_conf, islands_need_hosts_of_one) {
    const std::string islands = "SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=m[0-2]\n";
    EXPECT_NE(refusal_of([&] { slurm(islands); }).find(":2:1: nothing connects switch \"b\" with switch \"a\""),
              std::string::npos);
    for (const char* host : {"m1", "m1.site"}) EXPECT_EQ(slurm(islands, {host}).shape, tree::uniform(std::vector{3}));
    EXPECT_NE(refusal_of([&] {
                  slurm(islands, {"m1", "k"});
              }).find("topology.conf's, n[0-1],m[0-2]"),
              std::string::npos);
}

// In Slurm's guide each leaf of a fat tree has a link to each spine.
TEST(slurm_conf, spines_of_a_fat_tree_are_one) {
    const network_levels n = network_of(
        "SwitchName=a Nodes=n[0-3] LinkSpeed=100\nSwitchName=b Nodes=n[4-7] LinkSpeed=100\n"
        "SwitchName=c Nodes=m[0-3] LinkSpeed=100\nSwitchName=d Nodes=m[4-7] LinkSpeed=100\n"
        "SwitchName=s0 Switches=a,b LinkSpeed=50\nSwitchName=s1 Switches=b,a LinkSpeed=50\n"
        "SwitchName=t0 Switches=c,d LinkSpeed=50\nSwitchName=t1 Switches=c,d LinkSpeed=50\n"
        "SwitchName=x Switches=s[0-1],t[0-1] LinkSpeed=40\nSwitchName=y Switches=s[0-1],t[0-1] LinkSpeed=40\n",
        link_unit::gbit);
    EXPECT_EQ(n.machine.shape, tree::uniform(std::vector{4, 2, 2}));
    EXPECT_DOUBLE_EQ(n.machine.levels[1].bandwidth, 100e9 / 8);
    EXPECT_DOUBLE_EQ(n.machine.levels[2].bandwidth, 80e9 / 8);
    ASSERT_EQ(n.notes.size(), 4u);
    EXPECT_EQ(n.notes[0], "switches above the same ones are read as one: s0, s1");
    const std::string half = "SwitchName=a Nodes=n0\nSwitchName=b Nodes=n1\nSwitchName=s Switches=a,b\n";
    EXPECT_NE(refusal_of([&] { slurm(half + "SwitchName=t Switches=b\n"); }).find("only trees are read"),
              std::string::npos);
    EXPECT_NE(refusal_of([&] { slurm(half + "SwitchName=s Switches=a,b\n"); }).find("is there twice"),
              std::string::npos);
}

TEST(slurm_conf, what_scontrol_prints) {
    const hierarchy printed = slurm(
        "SwitchName=a Level=0 LinkSpeed=1 Nodes=n[0-1]\n"
        "SwitchName=b Level=0 LinkSpeed=1 Nodes=n[2-3]\n"
        "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[0-3] Switches=a,b \n");
    const hierarchy written = slurm(
        "SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n[2-3]\n"
        "SwitchName=top Switches=a,b\n");
    EXPECT_EQ(write_hierarchy(printed, 0), write_hierarchy(written, 0));
}

TEST(slurm_conf, blanks_quotes_and_byte_order_marks) {
    const std::string text = "\xef\xbb\xbfSwitchName = a Nodes=\"n0,n1\"  LinkSpeed= \"25 Gbit/s\"\n";
    const hierarchy h = slurm(text);
    EXPECT_EQ(h.hosts, (names{"n0", "n1"}));
    EXPECT_DOUBLE_EQ(h.levels[0].bandwidth, 25e9 / 8);
    const std::filesystem::path file = temporary("topology.conf");
    for (const std::string& slurms : {text, std::string("# top\nSwitchName = a\n"), std::string("Include x.conf\n")}) {
        write_atomically(file, slurms);
        EXPECT_EQ(format_of(file).name, "slurm") << slurms;
    }
}

TEST(slurm_conf, a_last_line_that_would_go_on_counts) {
    EXPECT_EQ(slurm("SwitchName=s0 Nodes=a,b\\\n").hosts, (names{"a", "b"}));
}

// A later size that is n times the first joins n neighbouring blocks. The base size of blocks with 32 nodes may be
// 30.
TEST(slurm_conf, blocks) {
    std::string text;
    for (int b = 0; b < 5; ++b)
        text += "BlockName=b" + std::to_string(b) + " Nodes=b" + std::to_string(b) + "n[1-32]\n";
    const hierarchy two = slurm(text + "BlockSizes=30,60,120\n");
    EXPECT_EQ(two.shape, tree({{32, 32, 32, 32, 32}, {2, 2, 1}, {2, 1}, {2}}));
    for (const auto& [l, name] : {std::pair{0u, "block"}, {1u, "blocks"}, {2u, "blocks-2"}, {3u, "cluster"}})
        EXPECT_EQ(two.levels[l].name, name);
    EXPECT_TRUE(two.levels[0].bandwidth_assumed);
    EXPECT_EQ(slurm(text).shape, tree({{32, 32, 32, 32, 32}, {5}}));
    EXPECT_EQ(slurm(text + "BlockSizes=32,64,128,256,512\n").levels.size(), 4u);
    EXPECT_EQ(slurm("BlockName=b Nodes=n[1-3]\n").shape, tree::uniform(std::vector{3}));
    EXPECT_EQ(slurm(text, {"b0n1", "b3n2"}).ranks(), 160);
}

TEST(slurm_conf, blocks_that_scontrol_prints) {
    const hierarchy printed = slurm(
        "BlockName=a BlockIndex=0 Nodes=n[1-2] BlockSize=2\nBlockName=b BlockIndex=1 Nodes=n[3-4] BlockSize=2\n"
        "BlockName=c BlockIndex=2 Nodes=n[5-6] BlockSize=2\n"
        "AggregatedBlock=a,b BlockIndex=3 Nodes=n[1-4] BlockSize=4\n"
        "AggregatedBlock=c BlockIndex=4 Nodes=n[5-6] BlockSize=4\n");
    const hierarchy written =
        slurm("BlockName=a Nodes=n[1-2]\nBlockName=b Nodes=n[3-4]\nBlockName=c Nodes=n[5-6]\nBlockSizes=2,4\n");
    EXPECT_EQ(write_hierarchy(printed, 0), write_hierarchy(written, 0));
    EXPECT_EQ(written.shape, tree({{2, 2, 2}, {2, 1}, {2}}));
}

TEST(slurm_conf, switches_win_over_blocks_of_the_same_file) {
    const network_levels n = network_of("SwitchName=a Nodes=n[1-3]\nBlockName=b Nodes=n[1-3]\n");
    EXPECT_EQ(n.machine.levels[0].name, "leaf");
    EXPECT_EQ(n.notes.at(0), "the file has switches and blocks; the switches are read");
}

constexpr const char* three_topologies =
    "---\n- topology: storage\n  flat: true\n- topology: compute\n  cluster_default: true\n  tree:\n    switches:\n"
    "      - {switch: top, children: \"s[1-2]\"}\n      - {switch: s1, nodes: \"a[1-2]\"}\n"
    "      - {switch: s2, nodes: \"a[3-5]\"}\n- topology: racks\n  block:\n    block_sizes: [2]\n    blocks:\n"
    "      - {block: r1, nodes: \"x[1-2]\"}\n      - {block: r2, nodes: \"x[3-4]\"}\n";

network_levels slurm_yaml(const std::string& text, const names& hosts = {}, const std::string& name = {}) {
    return slurm_levels("topology.yaml", text, {.read_node = read_node, .hosts = hosts, .network_name = name});
}

// Reads the topology of the given name; else the default, unless only another one has the job's hosts.
TEST(slurm_yaml, one_of_several_topologies) {
    const network_levels standard = slurm_yaml(three_topologies);
    EXPECT_EQ(standard.machine.shape, tree({{2, 3}, {2}}));
    EXPECT_EQ(standard.notes.at(0),
              "topology \"compute\" of the file is read; --network-name chooses another one: storage, racks");
    EXPECT_EQ(slurm_yaml(three_topologies, {"a1"}).machine.shape, tree({{2, 3}, {2}}));
    EXPECT_EQ(slurm_yaml(three_topologies, {"x1", "x4"}).machine.shape, tree({{2, 2}, {2}}));
    EXPECT_EQ(slurm_yaml(three_topologies, {}, "racks").machine.levels[0].name, "block");
    EXPECT_NE(refusal_of([] {
                  slurm_yaml(three_topologies, {"x1", "a1"});
              }).find("host \"x1\" is none of"),
              std::string::npos);
    EXPECT_NE(refusal_of([] {
                  slurm_yaml(three_topologies, {}, "rack");
              }).find("there is no topology \"rack\" (--network-name), only storage, compute, racks"),
              std::string::npos);
    EXPECT_NE(refusal_of([] {
                  slurm_yaml(three_topologies, {}, "storage");
              }).find(":3:9: topology \"storage\" is flat, which says nothing that is read"),
              std::string::npos);
}

TEST(slurm_yaml, is_what_the_conf_says) {
    EXPECT_EQ(
        write_hierarchy(slurm_yaml(three_topologies).machine, 0),
        write_hierarchy(
            slurm("SwitchName=top Switches=s[1-2]\nSwitchName=s1 Nodes=a[1-2]\nSwitchName=s2 Nodes=a[3-5]\n"), 0));
    EXPECT_EQ(write_hierarchy(slurm_yaml(three_topologies, {}, "racks").machine, 0),
              write_hierarchy(slurm("BlockName=r1 Nodes=x[1-2]\nBlockName=r2 Nodes=x[3-4]\nBlockSizes=2\n"), 0));
    EXPECT_EQ(slurm_yaml("topology: t\ntree:\n  switches:\n    - switch: s\n      nodes: n[1-3]\n").machine.hosts,
              (names{"n1", "n2", "n3"}));
}

TEST(slurm_yaml, is_found_by_content) {
    const std::filesystem::path file = temporary("network");
    for (const std::string text : {"topology: a\n", "# x\n---\n# y\n- topology: a\n", "-   topology: a\n"}) {
        write_atomically(file, text);
        EXPECT_EQ(format_of(file).name, "slurm_yaml") << text;
    }
}

TEST(slurm_yaml, errors_say_where_and_what) {
    for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
             {"[]\n", "the list is empty"},
             {"- topology: a\n", ":1:3: topology \"a\" has no kind: tree, block, flat, ring, torus3d"},
             {"- topology: a\n  flat: true\n  tree: {}\n", "topology \"a\" is tree already"},
             {"- topology: a\n  cluster_default: maybe\n", ":2:20: \"maybe\" is neither true nor false"},
             {"- topology: a\n  flat: true\n- topology: a\n  flat: true\n", ":3:13: topology \"a\" is there twice"},
             {"- topology: a\n  tree: {switches: s1}\n", ":2:20: expected a list"},
             {"- topology: a\n  tree: {switches: []}\n", "no switches; add one"},
             {"- topology: a\n  tree: {switch: []}\n", "unknown key \"switch\"; did you mean switches?"},
             {"- topology: a\n  tree: {switches: [{switch: s, children: \"x[1-\"}]}\n", ":2:43: host list"},
             {"- topology: a\n  tree: {switches: [{switch: s, children: x}]}\n", ":2:21: there is no switch \"x\""},
             {"- topology: a\n  block: {blocks: []}\n", "no block has nodes"},
             {"- topology: a\n  block: {block_sizes: [0], blocks: []}\n", "\"0\" is not an integer"},
             {"- topology: a\n  torus3d: {toruses: []}\n", "write a cluster file (torus:)"}})
        EXPECT_NE(refusal_of([&text = text] { slurm_yaml(text); }).find(what), std::string::npos)
            << refusal_of([&text = text] { slurm_yaml(text); });
}

TEST(network, other_descriptions_are_refused_by_name) {
    const std::filesystem::path file = temporary("node.xml");
    write_atomically(file, "<system version=\"1\"/>");
    EXPECT_NE(refusal_of([&] { read_network(format_of(file), file, {.read_node = read_node}); })
                  .find("node.xml: this is a node's NCCL topology XML, which does not say how nodes are connected; "
                        "--network reads " +
                        network_descriptions()),
              std::string::npos);
}

TEST(slurm_conf, errors_say_where_and_what) {
    std::string chain = "SwitchName=s0 Nodes=n\n";
    for (int i = 1; i < 40; ++i)
        chain += "SwitchName=s" + std::to_string(i) + " Switches=s" + std::to_string(i - 1) + "\n";
    for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
             {"# nothing\n", "no line begins with SwitchName= or BlockName="},
             {"SwitchName=a Nodes=n[0-1] Speed=3\n", ":1:27: unknown key \"Speed\""},
             {"SwitchName=a Nodes\n", ":1:14: \"Nodes\" is not KEY=VALUE"},
             {"SwitchName=a Nodes=n1 nodes=n2\n", ":1:23: nodes= is there twice"},
             {"SwitchName=a Level=top Nodes=n1\n", ":1:14: Level \"top\" is not a number"},
             {"Include other.conf\n", ":1:1: other files are not read"},
             {"SwitchName=a Nodes=\"n1\n", ":1:14: host list"},
             {"\nNodes=n1\n", ":2:1: the line has no SwitchName="},
             {"SwitchName=a\n", ":1:1: switch \"a\" has neither nodes nor switches"},
             {"SwitchName=a Nodes=n1 Switches=b\n", "has both nodes and switches"},
             {"SwitchName=a Nodes=n[1-\n", ":1:14: host list"},
             {"SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", ":2:1: switch \"a\" is there twice"},
             {"SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n", ":2:1: node \"n1\" is there twice"},
             {"SwitchName=a Switches=b\n", ":1:1: there is no switch \"b\""},
             {"SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "loop"},
             {"SwitchName=a Nodes=n1\nSwitchName=d Nodes=n2\nSwitchName=b Switches=a\nSwitchName=c Switches=a,d\n",
              ":4:1: switch \"a\" is below"},
             {"SwitchName=a Nodes=n1 LinkSpeed=fast\n", "LinkSpeed \"fast\" is not a speed"},
             {"SwitchName=a Nodes=n1 LinkSpeed=0\n", "is not a speed"},
             {"RingName=r Nodes=n1\n", ":1:1: topology/ring is not read"},
             {"BlockName=b Nodes=n1 Switches=s\n", ":1:22: unknown key \"Switches\" of blocks"},
             {"BlockName=a Nodes=n1\nBlockName=b Nodes=n1\n", ":2:1: node \"n1\" is there twice"},
             {"Nodes=n1 BlockSizes=4\n", ":1:1: the line has no BlockName="},
             {"BlockName=a Nodes=n1\nBlockSizes=4,x\n", ":2:1: block size \"x\" is not a number of nodes"},
             {"BlockName=a Nodes=n1\nBlockSizes=4,12\n", ":2:1: block size 12 is no larger power of two"},
             {"BlockSizes=4\n", "no line begins with SwitchName= or BlockName="},
             {"BlockName=a\n", "no block has nodes"},
             {chain, "above more than 16 levels"},
             {std::string("SwitchName=a Nodes=n\0", 21), "byte 0x00 is a control character"}})
        EXPECT_NE(refusal_of([&text = text] { slurm(text); }).find(what), std::string::npos)
            << refusal_of([&text = text] { slurm(text); });
}

}  // namespace
}  // namespace terrace::detail::slurm_test
