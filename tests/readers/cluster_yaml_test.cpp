#include "support/refusal.hpp"
#include "topology/formats/cluster.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "support/temporary.hpp"
#include "topology/describe.hpp"
#include "topology/formats.hpp"
#include "topology/restrict.hpp"

namespace terrace::detail::cluster_yaml_test {
namespace {

const std::filesystem::path shipped = std::filesystem::path(TERRACE_SOURCE_ROOT) / "topologies";

// Writes a cluster file and reads it. Nodes from hwloc have sockets of 2 and 1 cores.
topology read(const std::string& text) {
    const std::filesystem::path file = temporary("cluster_yaml_test.yaml");
    write_atomically(file, text);
    const auto uneven_node = [&](const topology_format& format, const std::string& what) {
        if (what.ends_with("missing.xml")) throw input_error(what, 0, 0, "cannot be opened");
        if (what.ends_with("broken.xml")) throw input_error(what, 7, 2, "no tag");
        EXPECT_EQ(format.name, "hwloc");
        EXPECT_EQ(what, (file.parent_path() / "node.xml").string());
        const part core{.what = part::kind::core};
        return hardware{{.children = {{.what = part::kind::package, .children = {core, core}},
                                      {.what = part::kind::package, .children = {core}}}},
                        "nvlink",
                        {}};
    };
    return read_cluster(file, uneven_node);
}

std::string error_of(const std::string& text) {
    return refusal_of<input_error>([&] { read(text); });
}

const std::string head = "terrace_topology: 1\nname: x\n";
const std::string node = "node: {hwloc: node.xml, ranks: cores}\n";

TEST(cluster_yaml, nodes_from_hwloc_stand_below_the_levels) {
    const topology t = read(
        head + node + "levels: [{name: rack, size: 2, fabric: ethernet}, {name: core, size: 2, fabric: ethernet}]\n");
    EXPECT_EQ(t.name, "x");
    EXPECT_EQ(t.machine.shape, tree({{2, 1, 2, 1, 2, 1, 2, 1}, {2, 2, 2, 2}, {2, 2}, {2}}));
    EXPECT_EQ(t.machine.levels[0].name, "socket");
    EXPECT_EQ(t.machine.levels[3].name, "core");
    EXPECT_EQ(t.machine.node_sizes(), (std::vector<int>{3, 3, 3, 3}));
}

TEST(cluster_yaml, tree_above_hwloc_nodes_counts_nodes) {
    const topology t =
        read(head + node + "levels: [{name: rack, fabric: ethernet}, {name: core, fabric: ethernet}]\ntree: [1, 2]\n");
    EXPECT_EQ(t.machine.shape, tree({{2, 1, 2, 1, 2, 1}, {2, 2, 2}, {1, 2}, {2}}));
}

TEST(cluster_yaml, one_node_needs_no_levels) { EXPECT_EQ(read(head + node).machine.shape, tree({{2, 1}, {2}})); }

// A child of a dimension has two links for each of its nodes; one link if the dimension has only two nodes.
TEST(cluster_yaml, a_torus_has_links_per_dimension) {
    const std::string torus = head + "torus: [4, 4, 2]\n";
    const hierarchy h = read(torus + "links: {fabric: infiniband, bandwidth: 1 GB/s}\n").machine;
    EXPECT_EQ(shape_text(h.shape), "4 x 4 x 2");
    EXPECT_EQ(h.torus_level(), 0);
    EXPECT_EQ(h.processors.reduction, 0);
    EXPECT_EQ(read(torus + "links: {fabric: infiniband}\nreduction: 3 GB/s\n").machine.processors.reduction, 3e9);
    EXPECT_EQ(h.levels[0].bandwidth, 2e9);
    EXPECT_EQ(h.levels[1].bandwidth, 4 * 2e9);
    EXPECT_EQ(h.levels[2].bandwidth, 16 * 1e9);
    EXPECT_FALSE(h.levels[2].bandwidth_assumed);
    EXPECT_TRUE(h.levels[2].latency_assumed);
    const hierarchy nodes =
        read(torus + node + "links: [{fabric: infiniband}, {fabric: infiniband}, {fabric: ethernet}]\n").machine;
    EXPECT_EQ(shape_text(nodes.shape), "1-2 x 2 x 4 x 4 x 2");
    EXPECT_EQ(nodes.torus_level(), 2);
    const hierarchy inside =
        read(torus + "links: {fabric: infiniband}\nlevels: [{name: n, size: 2, fabric: shm}]\n").machine;
    EXPECT_EQ(inside.node_sizes().size(), 32U);
    EXPECT_EQ(write_hierarchy(read(head + write_hierarchy(inside, 0)).machine, 0), write_hierarchy(inside, 0));
}

// A million nodes with links of 400 Gbit/s are within the limits, and so is the written file.
TEST(cluster_yaml, a_torus_may_be_very_large) {
    const topology t = read(head + "torus: [512, 512, 4]\nlinks: {fabric: infiniband, bandwidth: 400 Gbit/s}\n");
    EXPECT_EQ(t.machine.levels[2].bandwidth, 512 * 512 * 2 * 50e9);
    EXPECT_EQ(write_cluster(read(write_cluster(t))), write_cluster(t));
}

TEST(cluster_yaml, rates_of_links_are_in_the_limits) {
    const auto says = [](const std::string& text, const std::string& part) {
        const std::string error = error_of(head + text);
        EXPECT_NE(error.find(part), error.npos) << error;
    };
    for (const char* rate : {"bandwidth: 1e-300 B/s", "bandwidth: 1e308 B/s", "latency: 1e300 s", "overhead: 1e300 s"})
        says(std::string("torus: [8, 8]\nlinks: {fabric: infiniband, ") + rate + "}\n", "out of range");
    says("torus: [8, 8]\nlinks: {fabric: infiniband, bandwidth: 1e17 B/s}\n", "may be from 1 B/s to 50000 TB/s");
    says("node: {hwloc: node.xml, ranks: cores, nvlink: 1e20 B/s}\n", ":3:47: bandwidth 1e20 B/s is out of range");
}

TEST(cluster_yaml, refuses_what_is_no_torus) {
    const std::string links = "links: {fabric: infiniband}\n";
    const auto says = [](const std::string& text, const std::string& part) {
        const std::string error = error_of(head + text);
        EXPECT_NE(error.find(part), error.npos) << error;
    };
    says("torus: []\n" + links, "at least one dimension");
    says("torus: [4, 1]\n" + links, ":3:12: ");
    says("torus: [2048, 1024]\n" + links, "more than 1048576 nodes");
    says("torus: [4, 4]\nlinks: [{fabric: infiniband}, {fabric: infiniband}, {fabric: infiniband}]\n",
         "3 links for 2 dimensions");
    says("torus: [4, 4]\n", "links");
    says("torus: [4]\nlinks: {fabric: infinite}\n", "unknown fabric");
    says("torus: [4]\nlinks: {fabric: shm}\n", "infiniband or ethernet");
    says(links + "levels: [{name: n, size: 2, fabric: shm}]\n", ":3:8: these are links of a torus");
    says("torus: [4]\n" + links + "tree: [1]\n", "leave this out");
    says("torus: [4]\n" + links + "levels: [{name: n, size: 2, fabric: ethernet}]\n", "inside a node");
    says("levels: [{name: a, size: 2, fabric: ethernet, links: ring}, {name: b, size: 2, fabric: ethernet}]\n",
         "outside a level of rings");
    says("levels: [{name: a, size: 2, fabric: ethernet, links: cable}]\n", "switch or ring");
    says("levels: [{name: a, size: 2, fabric: ethernet, links: ring, bandwidth: [1 GB/s, 2 GB/s]}]\n", "alike");
    says("levels: [{name: a, fabric: ethernet, links: ring}, {name: b, fabric: ethernet, links: ring}]\ntree: [2, 3]\n",
         "differ in size");
}

// Expects the written file to give an equal machine. Compares level by level, so a failure shows the level.
void expect_reads_back(const topology& t) {
    const std::string text = write_cluster(t);
    const topology again = read(text);
    EXPECT_EQ(write_cluster(again), text);
    EXPECT_EQ(again.machine.shape, t.machine.shape);
    EXPECT_EQ(again.machine.hosts, t.machine.hosts);
    for (std::size_t l = 0; l < t.machine.levels.size(); ++l) {
        EXPECT_EQ(again.machine.levels[l].names, t.machine.levels[l].names) << l;
        EXPECT_EQ(again.machine.levels[l].rates, t.machine.levels[l].rates) << l;
        EXPECT_EQ(again.machine.levels[l].latency, t.machine.levels[l].latency) << l;
    }
}

const std::string networks = head +
                             "levels: [{name: rack, fabric: infiniband, bandwidth: 10 GB/s, latency: 2 us}, "
                             "{name: core, fabric: infiniband, bandwidth: 40 GB/s}]\n";

TEST(domains, are_written_out_one_by_one) {
    const topology t = read(head +
                            "levels: [{name: node, fabric: shm}, {name: rack, fabric: ethernet, bandwidth: 1 GB/s}, "
                            "{name: core, fabric: ethernet, bandwidth: 4 GB/s, latency: 10 us}]\n"
                            "domains:\n"
                            "  - {name: a, domains: [4, {ranks: 2, bandwidth: 2 GB/s, count: 2}]}\n"
                            "  - {name: b, bandwidth: 3 GB/s, latency: 30 us, domains: [1]}\n");
    EXPECT_EQ(t.machine.shape, tree({{4, 2, 2, 1}, {3, 1}, {2}}));
    EXPECT_EQ(t.machine.levels[1].rates, (std::vector<double>{1e9, 2e9, 2e9, 1e9}));
    EXPECT_EQ(t.machine.levels[2].rates, (std::vector<double>{4e9, 3e9}));
    EXPECT_EQ(t.machine.levels[1].names, (std::vector<std::string>{"a", "b"}));
    // A level has one latency: the longest of its domains. A note reports that.
    EXPECT_EQ(t.machine.levels[2].latency, 30e-6);
    ASSERT_EQ(t.notes.size(), 1U);
    EXPECT_NE(t.notes[0].find("level core differ in latency; the longest, 30 us"), std::string::npos) << t.notes[0];
    EXPECT_TRUE(t.machine.levels[1].latency_assumed);
    expect_reads_back(t);
    EXPECT_EQ(part_of(t.machine, std::vector{8}).levels[1].names, (std::vector<std::string>{"b"}));
}

TEST(domains, nodes_are_of_types) {
    const topology t = read(networks +
                            "nodes:\n"
                            "  big: {hwloc: node.xml, ranks: cores}\n"
                            "  flat: {levels: [{name: node, size: 2, fabric: shm, bandwidth: 5 GB/s, latency: 9 us}]}\n"
                            "  gpus: {levels: [{name: socket, size: 2, fabric: pcie}]}\n"
                            "  one: 1\n"
                            "domains:\n"
                            "  - {domains: [{node: big, hosts: \"b[1-2]\"}, {node: one, hosts: x}]}\n"
                            "  - {domains: [{node: flat, hosts: y, bandwidth: 1 GB/s}, {node: gpus, hosts: z}]}\n");
    // The two types' sockets have different links, so they are two levels. In nodes without such a level each domain
    // has one child.
    const hierarchy& h = t.machine;
    std::vector<std::string> names;
    for (const level& l : h.levels) names.push_back(l.name);
    EXPECT_EQ(names, (std::vector<std::string>{"socket-pcie", "socket", "node", "rack", "core"}));
    EXPECT_EQ(h.shape, tree({{1, 1, 1, 1, 1, 1, 1, 1, 1, 2}, {2, 1, 2, 1, 1, 1, 1, 1}, {2, 2, 1, 2, 1}, {3, 2}, {2}}));
    EXPECT_EQ(h.node_sizes(), (std::vector<int>{3, 3, 1, 2, 2}));
    EXPECT_EQ(h.levels[2].latency, 9e-6);
    EXPECT_EQ(h.rate(2, 6), 5e9);  // a rank of the flat node, alone in its socket
    EXPECT_EQ(h.rate(3, 3), 1e9);
    EXPECT_EQ(h.hosts, (std::vector<std::string>{"b1", "b2", "x", "y", "z"}));
    EXPECT_EQ(t.type_of_node, (std::vector<int>{0, 0, 3, 1, 2}));
    EXPECT_NE(t.types[0].node, nullptr);
    EXPECT_EQ(t.types[1].node, nullptr);
    expect_reads_back(t);
    EXPECT_NE(describe_text(t).find("2 nodes of type big, ranks of each"), std::string::npos) << describe_text(t);

    const topology part = restricted(t, parse_hostlist("b2,y"));
    EXPECT_EQ(part.machine.node_sizes(), (std::vector<int>{3, 2}));
    EXPECT_EQ(part.type_of_node, (std::vector<int>{0, 1}));
    EXPECT_EQ(part.machine.hosts, (std::vector<std::string>{"b2", "y"}));
    // Racks of one node are left out, but their nodes' links count: 10 and 1 GB/s below racks with 40.
    EXPECT_EQ(part.machine.levels.back().rates, (std::vector<double>{10e9, 1e9}));
}

TEST(domains, one_type_need_not_be_named_again) {
    const topology t = read(networks + "nodes: {n: 3}\ndomains: [{domains: [{hosts: a}, {hosts: \"b[1-2]\"}]}]\n");
    EXPECT_EQ(t.machine.shape, tree({{3, 3, 3}, {3}, {1}}));
    const topology counted =
        read(networks + "nodes: {n: 2}\ndomains: [{count: 2, domains: [{count: 3}]}, {domains: [n]}]\n");
    EXPECT_EQ(counted.machine.shape, tree({{2, 2, 2, 2, 2, 2, 2}, {3, 3, 1}, {3}}));
    expect_reads_back(counted);
}

TEST(domains, refuse_what_is_unclear) {
    const auto says = [](const std::string& text, const std::string& part) {
        const std::string error = error_of(text);
        EXPECT_NE(error.find(part), error.npos) << text << error;
    };
    const std::string two = networks + "nodes: {a: 1, b: {levels: [{name: node, size: 2, fabric: shm}]}}\n";
    says(two + "domains: []\n", ":5:10: a domain of level \"core\" is empty");
    says(two + "domains: [a]\n", ":5:11: expected a rack with domains:");
    says(two + "domains: [{domains: [c]}]\n", ":5:22: no node type is named \"c\"; these are: a, b");
    says(two + "domains: [{domains: [{hosts: x}]}]\n", "\"node\" is missing");
    says(two + "domains: [{domains: [{node: a, hosts: x}, b]}]\n", "1 of 2 domains of level \"node\" have names");
    says(two + "domains: [{domains: [{node: a, hosts: x}, {node: b, hosts: x}]}]\n", "host \"x\" is there twice");
    says(two + "domains: [{name: r, count: 2, domains: [a]}]\n", "would all have the names in here");
    says(two + "domains: [{count: 2, domains: [{node: a, hosts: x}]}]\n", "would all have the names in here");
    says(two + "domains: [{domains: [{node: a, count: 2, hosts: \"x[1-2]\"}]}]\n", "leave count out");
    says(two + "domains: [{name: r, domains: [a]}, {name: r, domains: [b]}]\n", ":5:43: two domains of level \"rack\"");
    says(two + "domains: [{name: r, domains: [a]}, {domains: [b]}]\n", "1 of 2 domains of level \"rack\" have names");
    says(two + "domains: [{name: \"r[1-2]\", domains: [a]}]\n", "not a list");
    says(two + "domains: [{hosts: r, domains: [a]}]\n", "hosts name nodes");
    says(two + "domains: [{domains: [{node: a, name: x}]}]\n", "write hosts:");
    says(two + "domains: [{node: a}]\n", "unknown key \"node\"");
    says(two + "domains: [{name: r}]\n", "has domains: inside it");
    says(two + "domains: [{count: 1048577, domains: [a]}]\n", "\"1048577\" is not an integer");
    says(two + "domains: [{count: 2000, domains: [{node: a, count: 2000}]}]\n", "more than 1048576 ranks");
    says(two + "domains: [{domains: [{node: b, count: 600000}]}]\n",
         "1200000 ranks in all are more than 1048576 ranks");
    says(two + "domains: [{domains: [{node: a, bandwidth: 0.5 B/s}]}]\n", "out of range");
    says(two + "tree: [1]\ndomains: [a]\n", ":5:7: domains: says how the machine is built");
    says(two, "domains:; add it");
    says(networks + node + "domains: [a]\n", ":4:7: with domains: nodes have types");
    says(networks + "nodes: {}\ndomains: [a]\n", "no node types");
    says(networks + "nodes: {a: {levels: [{name: x, size: 2, fabric: ethernet}]}}\ndomains: [{domains: [a]}]\n",
         "inside a node");
    says(networks + "nodes: {a: {levels: [{name: rack, size: 2, fabric: shm}]}}\ndomains: [{domains: [a]}]\n",
         "two levels are named \"rack\"");
    says(networks +
             "nodes: {a: {levels: [{name: x, size: 2, fabric: shm}, {name: y, size: 2, fabric: shm}]}, "
             "b: {levels: [{name: y, size: 2, fabric: shm}, {name: x, size: 2, fabric: shm}]}}\n"
             "domains: [{domains: [a, b]}]\n",
         "level \"x\" lies inside \"y\" in one kind of node");
    says(head + "levels: [{name: rack, size: 2, fabric: ethernet}]\nnodes: {a: 1}\ndomains: [a]\n",
         ":3:29: domains: says");
    says(head + "levels: [{name: rack, fabric: shm}]\ndomains: [1]\n", "one level has no domains");
    says(head + "levels: [{name: n, fabric: shm}, {name: r, fabric: ethernet, bandwidth: [1 GB/s]}]\ndomains: [1]\n",
         "a bandwidth of their own");
    says(networks + "domains: [{ranks: 3, hosts: \"n[1-2]\"}]\n", "2 host names for 3 nodes");
    EXPECT_EQ(error_of(networks + "domains: [{name: r, hosts: \"n[1-2]\"}, {name: s, hosts: m}]\n"), "accepted");
}

// Many nodes of one description, which gives each child of the node its own rate.
TEST(cluster_yaml, unequal_links_inside_nodes_are_those_of_each_node) {
    const hierarchy h = read(head +
                             "torus: [4, 4]\nlinks: {fabric: infiniband}\n"
                             "levels: [{name: n, size: 2, fabric: shm, bandwidth: [1 GB/s, 2 GB/s]}]\n")
                            .machine;
    EXPECT_EQ(h.levels[0].rates.size(), 32U);
    EXPECT_EQ(h.rate(0, 31), 2e9);
}

// Names inside a node's description are dropped if there are many such nodes, also in the written file.
TEST(cluster_yaml, names_inside_one_node_are_not_those_of_all) {
    const std::string levels =
        "levels: [{name: numa, size: 2, fabric: shm, names: \"n[0-1]\"}, {name: node, size: 2, fabric: bus";
    const std::string torus = head + "torus: [4, 2]\nlinks: {fabric: infiniband}\n";
    for (const std::string& text : {torus + levels + ", names: [only]}]\n",
                                    networks + "nodes: {a: {" + levels + "}]}}\ndomains: [{domains: [a, a]}]\n"}) {
        const topology t = read(text);
        EXPECT_TRUE(t.machine.levels[0].names.empty());
        expect_reads_back(t);
    }
    EXPECT_NE(error_of(torus + levels + ", hosts: x}]\n").find(":5:9: these are the levels of many nodes"),
              std::string::npos)
        << error_of(torus + levels + ", hosts: x}]\n");
}

TEST(cluster_yaml, hosts_are_named_at_the_nodes_or_above_them) {
    const std::string uneven = "{name: rack, fabric: ethernet}, {name: core, fabric: ethernet}]\ntree: [1, 2]\n";
    const topology t = read(head + node + "levels: [{hosts: \"n[09-10],x\", " + uneven.substr(1));
    EXPECT_EQ(t.machine.hosts, (std::vector<std::string>{"n09", "n10", "x"}));
    EXPECT_NE(write_cluster(t).find("{name: rack, fabric: ethernet, bandwidth: 10 Gbit/s, latency: 20 us, assumed: "
                                    "[bandwidth, latency, overhead], hosts: \"n[09-10],x\"}"),
              std::string::npos)
        << write_cluster(t);
    const topology flat =
        read(head + "levels: [{name: a, size: 2, fabric: shm, hosts: [a, b]}, {name: b, size: 2, fabric: ethernet}]\n");
    EXPECT_EQ(flat.machine.hosts, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(read(write_cluster(flat)).machine.hosts, flat.machine.hosts);
}

TEST(cluster_yaml, errors_say_where_what_and_what_next) {
    struct refused {
        std::string text;
        std::string error;
    };
    const std::vector<refused> table{
        {"name: x\n", "\"terrace_topology\" is missing"},
        {"terrace_topology: 2\n", ":1:19: format 2 of a newer version; Terrace "},
        {"terrace_topology: 99999999999999999999\n", ":1:19: format 99999999999999999999 of a newer version"},
        {"terrace_topology: 0\n", "\"0\" is not an integer from 1"},
        {"terrace_topology: 1\nlevels: [{name: a, size: 2, fabric: shm}]\n", "\"name\" is missing"},
        {head + "level: 3\n", ":3:1: unknown key \"level\"; did you mean levels?; known here: terrace_topology,"},
        {head + "node: {hwloc: node.xml, ranks: threads}\n",
         ":3:32: ranks cannot be \"threads\"; they are one of gpus, cores"},
        {head + "node: {hwloc: missing.xml, ranks: cores}\n", "missing.xml: cannot be opened"},
        {head + "node: {hwloc: missing.xml, ranks: cores}\n", ":3:15: "},
        {head + "node: {hwloc: broken.xml, ranks: cores}\n", "broken.xml:7:2: no tag"},
        {head + "node: {ranks: gpus}\n", ":3:7: a node needs a description: hwloc: FILE, nccl: FILE"},
        {head + "node: {hwloc: a, nccl: b}\n", ":3:24: the node has a description already (hwloc)"},
        {head + "node: {hwloc: node.xml, ranks: gpus}\n", "node.xml: holds no gpus to place ranks on; choose others"},
        {head + "levels: [{name: a, size: 2, fabric: shm, hosts: n1}, {name: b, size: 2, fabric: ethernet}]\n",
         ":3:49: 1 host names for 2 nodes"},
        {head + "levels: [{name: a, size: 2, fabric: shm}, {name: b, size: 2, fabric: ethernet, hosts: \"n[1,1]\"}]\n",
         "host \"n1\" is there twice"},
        {head + "levels: [{name: a, size: 2, fabric: shm}, {name: b, size: 2, fabric: bus, hosts: \"n[1\"}]\n",
         "']' is missing at the end"},
        {head + node + "levels: [{name: a, size: 2, fabric: shm}]\n", "list only infiniband and ethernet levels"},
        {head + node + "levels: [{name: node, size: 2, fabric: ethernet}]\n", "named \"node\" too; rename this one"},
        {head + node + "levels: [{name: a, size: 400000, fabric: ethernet}]\n", "are more than 1048576 ranks"},
    };
    for (const refused& r : table) EXPECT_NE(error_of(r.text).find(r.error), std::string::npos) << error_of(r.text);
}

TEST(cluster_yaml, writes_what_it_reads) {
    const topology before = read(head +
                                 "levels:\n  - {name: node, fabric: shm, overhead: 2 us}\n"
                                 "  - {name: rack, fabric: ethernet}\ntree: [3, 1]\nreduction: 5 GB/s\n");
    const std::string text = write_cluster(before);
    const topology after = read(text);
    EXPECT_EQ(after.name, before.name);
    EXPECT_EQ(after.machine.shape, before.machine.shape);
    EXPECT_EQ(after.machine.processors.reduction, 5e9);
    EXPECT_EQ(write_cluster(after), text);
}

TEST(cluster_yaml, shipped_files) {
    struct row {
        const char* directory;
        const char* shape;
        std::size_t nodes;
    };
    const std::vector<row> table{
        {"blueconnect-fig1", "3 x 2 x 2", 4},
        {"paper-pcie-10gbe", "4 x 2", 2},
        {"paper-nvlink-100gib", "2 x 2 x 2", 2},
        {"paper-192gpu", "2 x 2 x 16 x 3", 48},
        {"dgx-pod", "8 x 16", 16},
        {"uneven", "1-4 x 2-3 x 2", 5},
        {"two-by-four", "4 x 2", 2},
        {"four-and-two", "2-4 x 2", 2},
        {"four-nics", "4 x 2", 2},
        {"rails", "2 x 4", 4},
        {"uneven-nics", "2-4 x 2", 2},
        {"three-three-one", "1-3 x 3", 3},
        {"three-racks", "2 x 2 x 3", 6},
        {"uneven-racks", "1-3 x 2-3 x 2", 5},
        {"unequal-uplinks", "2-4 x 3", 3},
        {"two-kinds", "1-2 x 1-2 x 1-2 x 2-3 x 2", 5},
    };
    for (const row& r : table) {
        SCOPED_TRACE(r.directory);
        const topology t = read_cluster(shipped / r.directory / "cluster.yaml", read_node);
        EXPECT_EQ(t.name, r.directory);
        EXPECT_EQ(shape_text(t.machine.shape), r.shape);
        EXPECT_EQ(t.machine.node_sizes().size(), r.nodes);
    }
    std::size_t clusters = 0;
    for (const auto& entry : std::filesystem::directory_iterator(shipped))
        clusters += std::filesystem::exists(entry.path() / "cluster.yaml");
    EXPECT_EQ(clusters, table.size());
}

TEST(describe, folds_equal_siblings_and_marks_what_is_assumed) {
    const topology t = read_cluster(shipped / "three-three-one" / "cluster.yaml", read_node);
    EXPECT_EQ(describe_text(t),
              "three-three-one: 7 ranks in 3 nodes, 1-3 x 3\n\n"
              "level    fabric    bandwidth   latency  overhead\n"
              "node     shm       10 GB/s     500 ns   300 ns (assumed)\n"
              "cluster  ethernet  100 Mbit/s  30 us    10 us\n\n"
              "three-three-one\n"
              "  cluster\n"
              "    2 x node of 3 ranks\n"
              "    node of 1 rank\n");
}

}  // namespace
}  // namespace terrace::detail::cluster_yaml_test
