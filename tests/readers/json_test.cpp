// Networks as clouds and Kubernetes describe them: AWS's instances, labels of nodes.

#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/text_file.hpp"
#include "support/refusal.hpp"
#include "support/temporary.hpp"
#include "topology/formats.hpp"
#include "topology/formats/json_file.hpp"
#include "topology/network.hpp"

namespace terrace::detail::json_test {
namespace {

using names = std::vector<std::string>;

network_levels levels_in(const std::string& text, const names& hosts = {}, const names& labels = {}) {
    const std::filesystem::path file = temporary("network.json");
    write_atomically(file, text);
    return levels_of(read_network(format_of(file.string()), file.string(), {.hosts = hosts, .labels = labels}), {},
                     hosts);
}

names level_names(const network_levels& n) {
    names result;
    for (const level& l : n.machine.levels) result.push_back(l.name);
    return result;
}

std::string instance(const std::string& id, const std::string& layers, const std::string& zone = "z1") {
    return fmt::format(R"({{"InstanceId": "{}", "NetworkNodes": [{}], "ZoneId": "{}"}})", id, layers, zone);
}

std::string instances(const names& all) { return fmt::format(R"({{"Instances": [{}]}})", fmt::join(all, ",\n")); }

TEST(aws, layers_are_levels) {
    const network_levels n =
        levels_in(instances({instance("i-1", R"("t","s1","l1")"), instance("i-2", R"("t","s1","l1")"),
                             instance("i-3", R"("t","s1","l2")"), instance("i-4", R"("t","s2","l3")")}));
    EXPECT_EQ(n.machine.shape, tree({{2, 1, 1}, {2, 1}, {2}}));
    EXPECT_EQ(level_names(n), (names{"leaf", "spine", "core"}));
    EXPECT_EQ(n.machine.hosts, (names{"i-1", "i-2", "i-3", "i-4"}));
    EXPECT_TRUE(n.machine.levels[0].bandwidth_assumed);
    EXPECT_TRUE(n.notes.empty());
}

TEST(aws, zones_are_joined_by_an_assumed_level) {
    const std::string text = instances({instance("i-1", R"("t","s","l")"), instance("i-2", R"("t","s","l")"),
                                        instance("i-3", R"("u","v","w")", "z2")});
    const network_levels n = levels_in(text);
    EXPECT_EQ(n.machine.shape, tree({{2, 1}, {2}}));
    EXPECT_EQ(level_names(n), (names{"leaf", "cluster"}));
    ASSERT_EQ(n.notes.size(), 1U);
    EXPECT_NE(n.notes[0].find("nothing in the file connects one zone with another"), std::string::npos);
    EXPECT_EQ(levels_in(text, {"i-3"}).machine.hosts, names({"i-1", "i-2", "i-3"}));  // still one tree
}

// The last network node of an instance is nearest to it, with any number of nodes above.
TEST(aws, types_with_more_layers) {
    const network_levels n = levels_in(instances(
        {instance("i-1", R"("t","s","l")"), instance("i-2", R"("t","s","l")"), instance("i-3", R"("a","t","s","k")")}));
    EXPECT_EQ(n.machine.hosts.size(), 3U);
    EXPECT_EQ(level_names(n).front(), "leaf");
}

TEST(aws, errors_say_where_and_what) {
    for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
             {R"({"Instances": []})", ":1:15: the list of instances is empty"},
             {"{\"Instances\": [\n{\"InstanceId\": \"i\"}]}", ":2:1: \"NetworkNodes\" is missing here"},
             {R"({"Instances": 3})", ":1:16: \"Instances\" is not a list"},
             {R"({"Instances": [3]})", "a map with \"InstanceId\" expected here"},
             {instances({instance("i-1", "3")}), "the id of a network node expected here"},
             {instances({instance("i 1", R"("a")")}), "\"i 1\" is no name of a node"},
             {instances({instance("i-1", R"("a")"), instance("i-1", R"("a")")}), "node \"i-1\" is there twice"},
             {R"({"Instances": [], "Instances": []})", ":1:29: key \"Instances\" is there twice"},
             {"{\"Instances\": [\n1,,2]}", ":2:3: not JSON at \"1,,\""},
             {R"({"Instances": [)", "not JSON at "},
             {R"({"Instances": )" + std::string(70, '[') + std::string(70, ']') + "}", "nested deeper than 64"}})
        EXPECT_NE(refusal_of([&text = text] { levels_in(text); }).find(what), std::string::npos)
            << refusal_of([&text = text] { levels_in(text); });
}

std::string node(const std::string& name, const std::string& labels) {
    return fmt::format(R"({{"kind": "Node", "metadata": {{"labels": {{{}}}, "name": "{}"}}}})", labels, name);
}

std::string node_list(const names& all) {
    return fmt::format(R"({{"apiVersion": "v1", "items": [{}], "kind": "List"}})", fmt::join(all, ",\n"));
}

std::string topograph(const std::string& leaf, const std::string& spine) {
    return fmt::format(R"("network.topology.nvidia.com/leaf": "{}", "network.topology.nvidia.com/spine": "{}")", leaf,
                       spine);
}

TEST(kubernetes, labels_of_topograph) {
    const std::string text = node_list({node("n1", topograph("l1", "s")), node("n2", topograph("l1", "s")),
                                        node("cp", R"("a": "b")"), node("n3", topograph("l2", "s"))});
    const network_levels n = levels_in(text);
    EXPECT_EQ(n.machine.shape, tree({{2, 1}, {2}}));
    EXPECT_EQ(level_names(n), (names{"leaf", "spine"}));
    EXPECT_EQ(n.machine.hosts, (names{"n1", "n2", "n3"}));
    ASSERT_EQ(n.notes.size(), 1U);
    EXPECT_NE(n.notes[0].find("left out: 1, as \"cp\""), std::string::npos) << n.notes[0];
    EXPECT_EQ(levels_in(text, {"n1", "cp"}).machine.hosts.size(), 4U);
}

TEST(kubernetes, tiers_and_accelerators) {
    names all;
    for (int i = 0; i < 8; ++i)
        all.push_back(
            node(fmt::format("n{}", i),
                 fmt::format(R"("accelerator.topograph.run/domain": "d{}", "fabric.topograph.run/tier-0": "l{}",)"
                             R"("fabric.topograph.run/tier-1": "s", "fabric.topograph.run/tier-2": "c")",
                             i / 2, i / 4)));
    const network_levels n = levels_in(node_list(all));
    EXPECT_EQ(n.machine.shape, tree::uniform(std::vector{2, 2, 2}));
    EXPECT_EQ(level_names(n), (names{"accelerator", "leaf", "spine"}));
    EXPECT_NE(n.notes.back().find("NVLink domain"), std::string::npos);
}

TEST(kubernetes, labels_of_aws_and_gke) {
    const auto aws = [](const std::string& a, const std::string& b, const std::string& c) {
        return fmt::format(R"("topology.k8s.aws/network-node-layer-1": "{}", "topology.k8s.aws/network-node-layer-2": )"
                           R"("{}", "topology.k8s.aws/network-node-layer-3": "{}")",
                           a, b, c);
    };
    const network_levels a = levels_in(
        node_list({node("n1", aws("t", "s", "l")), node("n2", aws("t", "s", "l")), node("n3", aws("t", "s", "m"))}));
    EXPECT_EQ(a.machine.shape, tree({{2, 1}, {2}}));
    EXPECT_EQ(level_names(a), (names{"leaf", "spine"}));
    const auto gke = [](const std::string& subblock, const std::string& host) {
        return fmt::format(R"("cloud.google.com/gce-topology-block": "b", "cloud.google.com/gce-topology-subblock": )"
                           R"("{}", "cloud.google.com/gce-topology-host": "{}")",
                           subblock, host);
    };
    const network_levels g =
        levels_in(node_list({node("n1", gke("s1", "h1")), node("n2", gke("s1", "h2")), node("n3", gke("s2", "h3"))}));
    EXPECT_EQ(g.machine.shape, tree({{2, 1}, {2}}));
    EXPECT_EQ(level_names(g), (names{"subblock", "block"}));
}

// Returns nodes n0 ..., with a label for each key. Of a key with size s, node i has the value "p" and i / s.
std::string labelled(int nodes, const std::vector<std::pair<std::string, int>>& keys) {
    names all;
    for (int i = 0; i < nodes; ++i) {
        names labels;
        for (const auto& [key, size] : keys) labels.push_back(fmt::format(R"("{}": "p{}")", key, i / size));
        all.push_back(node(fmt::format("n{}", i), fmt::format("{}", fmt::join(labels, ","))));
    }
    return node_list(all);
}

TEST(kubernetes, labels_of_other_clouds) {
    for (const auto& [prefix, keys, levels] :
         {std::tuple{"oci.oraclecloud.com/rdma.", names{"local_block_id", "network_block_id", "hpc_island_id"},
                     names{"local-block", "network-block", "island"}},
          {"backend.coreweave.cloud/", {"leafgroup", "superpod", "fabric"}, {"leafgroup", "superpod", "fabric"}},
          {"ib.coreweave.cloud/", {"leafgroup", "superpod", "fabric"}, {"leafgroup", "superpod", "fabric"}},
          {"topology.nebius.com/", {"tier-1", "tier-2", "gpu-cluster-id"}, {"leaf", "spine", "fabric"}}}) {
        const network_levels n =
            levels_in(labelled(8, {{prefix + keys[0], 2}, {prefix + keys[1], 4}, {prefix + keys[2], 8}}));
        EXPECT_EQ(n.machine.shape, tree::uniform(std::vector{2, 2, 2})) << prefix;
        EXPECT_EQ(level_names(n), levels);
        EXPECT_TRUE(n.notes.empty());
    }
}

TEST(kubernetes, a_label_with_all_places) {
    const auto in = [](const std::string& places) { return fmt::format(R"("volcano.sh/hypernode": "{}")", places); };
    const network_levels n =
        levels_in(node_list({node("a", in("s0,s4")), node("b", in("s0,s4")), node("c", in("s1,s4"))}));
    EXPECT_EQ(n.machine.shape, tree({{2, 1}, {2}}));
    EXPECT_EQ(level_names(n), (names{"hypernode", "hypernode-2"}));
}

TEST(kubernetes, labels_of_ones_own) {
    const std::string text =
        labelled(8, {{"a.org/rack", 2}, {"a.org/topology-block", 4}, {"pool", 2}, {"a.org/switch-port", 1}});
    const network_levels flat = levels_in(text);
    EXPECT_EQ(flat.machine.shape, tree::uniform(std::vector{8}));
    EXPECT_NE(flat.notes.at(0).find("are not read; --labels a.org/topology-block,a.org/rack does, outermost first"),
              std::string::npos)
        << flat.notes[0];
    const network_levels n = levels_in(text, {}, {"a.org/topology-block", "a.org/rack"});
    EXPECT_EQ(n.machine.shape, tree::uniform(std::vector{2, 2, 2}));
    EXPECT_EQ(level_names(n), (names{"rack", "topology-block", "cluster"}));
    EXPECT_NE(refusal_of([&] { levels_in(text, {}, {"b"}); }).find("has the label \"b\""), std::string::npos);
}

TEST(kubernetes, nodes_that_lack_a_label_are_counted) {
    const auto spine = [](const std::string& s) {
        return fmt::format(R"("network.topology.nvidia.com/spine": "{}")", s);
    };
    const std::string text =
        node_list({node("a", topograph("l", "s")), node("b", topograph("l", "s")), node("c", spine("s"))});
    EXPECT_EQ(levels_in(text).notes.at(0),
              "1 of 3 nodes, as \"c\", have no label of level \"leaf\"; those in one place "
              "are read as one leaf");
}

TEST(kubernetes, without_labels_of_a_network) {
    const auto in = [](const std::string& zone) { return fmt::format(R"("topology.kubernetes.io/zone": "{}")", zone); };
    const network_levels zones = levels_in(node_list({node("a", in("z1")), node("b", in("z1")), node("c", in("z2"))}));
    EXPECT_EQ(zones.machine.shape, tree({{2, 1}, {2}}));
    const network_levels none = levels_in(node_list({node("a", ""), node("b", "")}));
    EXPECT_EQ(none.machine.shape, tree::uniform(std::vector{2}));
    EXPECT_NE(none.notes.at(0).find("does not say how nodes are connected"), std::string::npos);
}

TEST(kubernetes, errors_say_where_and_what) {
    for (
        const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
            {R"({"apiVersion": "v1", "kind": "Node"})", "no \"items\" here: a list of nodes is read"},
            {R"({"apiVersion": "v1", "items": []})", "there is no node in the list"},
            {R"({"apiVersion": "v1", "items": [{"kind": "Pod", "metadata": {}}]})", "there is no node in the list"},
            {R"({"apiVersion": "v1", "items": [{"kind": "Node"}]})", "\"metadata\" is missing here"},
            {R"({"apiVersion": "v1", "items": [{"kind": "Node", "metadata": {}}]})", "\"name\" is missing here"},
            {R"({"apiVersion": "v1", "items": [{"metadata": {"labels": {"topology.k8s.aws/network-node-layer-1": "a"}}},)"
             R"({"metadata": {"name": "n", "labels": {"topology.k8s.aws/network-node-layer-2": "b"}}}]})",
             "\"name\" is missing here"}})
        EXPECT_NE(refusal_of([&text = text] { levels_in(text); }).find(what), std::string::npos)
            << refusal_of([&text = text] { levels_in(text); });
}

// JSON values that no reader needs do not count against the limits, except for their bytes.
TEST(json, only_kept_values_count) {
    std::string text = R"({"apiVersion": "v1", "other": [)";
    for (int i = 0; i < 600'000; ++i) text += "1,";
    text += R"(1], "items": [{"metadata": {"name": "n1", "name2": [[[{"name": 3}]]]}}]})";
    EXPECT_EQ(levels_in(text).machine.hosts, names{"n1"});
}

}  // namespace
}  // namespace terrace::detail::json_test
