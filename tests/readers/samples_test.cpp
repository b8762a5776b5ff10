// Sample files of every format, with the output of `terrace topo` compared by bytes. TERRACE_GOLDEN_ACCEPT=1 writes the
// new output (review the diff before you commit it); the test then counts as skipped.

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <tuple>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "support/refusal.hpp"
#include "support/samples.hpp"
#include "support/temporary.hpp"
#include "tools/common/machine.hpp"
#include "topology/describe.hpp"
#include "topology/formats.hpp"

namespace terrace::detail::samples_test {
namespace {

namespace fs = std::filesystem;

const fs::path samples = fs::path(TERRACE_SOURCE_ROOT) / "tests" / "readers" / "samples";

std::set<std::string> files() {
    std::set<std::string> names;
    for (const fs::path& file : sample_files(samples)) names.insert(file.filename().string());
    return names;
}

topology load(const std::string& file) { return load_machine({.source = (samples / file).string()}); }

class sample : public ::testing::TestWithParam<std::string> {};

TEST_P(sample, reads_as_committed) {
    const std::string text = describe_text(load(GetParam()));
    const fs::path expected = (samples / GetParam()).replace_extension(".txt");
    if (std::getenv("TERRACE_GOLDEN_ACCEPT") != nullptr) {
        write_atomically(expected, text);
        GTEST_SKIP() << "wrote " << expected;
    }
    EXPECT_EQ(text, read_text(expected, 1 << 20));
}

INSTANTIATE_TEST_SUITE_P(files, sample, ::testing::ValuesIn(files()), [](const auto& info) {
    std::string name = info.param;
    for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    return name;
});

int count(const part& p, part::kind what) {
    int found = p.what == what;
    for (const part& c : p.children) found += count(c, what);
    return found;
}

const part* part_of_rank(const part& p, int rank) {
    if (p.rank == rank) return &p;
    for (const part& c : p.children)
        if (const part* found = part_of_rank(c, rank)) return found;
    return nullptr;
}

TEST(samples, parts_of_a_node) {
    const part node = *load("pcie-switches.xml").node;
    using kind = part::kind;
    for (const auto& [what, number] : {std::pair{kind::machine, 1},
                                       {kind::package, 2},
                                       {kind::numa, 2},
                                       {kind::bus_switch, 4},
                                       {kind::gpu, 8},
                                       {kind::nic, 4},
                                       {kind::core, 4}})
        EXPECT_EQ(count(node, what), number) << to_string(what);
    EXPECT_EQ(part_of_rank(node, 1)->what, kind::gpu);
    EXPECT_EQ(part_of_rank(node, 1)->nearest_nic, "mlx5_0");
}

TEST(samples, json_has_the_machine) {
    const auto cluster = nlohmann::json::parse(describe_json(load("topology.conf")));
    EXPECT_EQ(cluster.at("nodes").size(), 8U);
    EXPECT_EQ(cluster.at("hosts").size(), 8U);
    EXPECT_EQ(cluster.at("levels").size(), cluster.at("shape").size());
}

TEST(samples, one_line_machines) {
    const topology t = load_machine({.source = "package:2 numa:2 core:3"});
    EXPECT_EQ(shape_text(t.machine.shape), "3 x 2 x 2");
    EXPECT_EQ(shape_text(load_machine({.source = "pack:2 core:2 pu:2", .ranks = "packages"}).machine.shape), "2");
    for (const char* numbered :
         {"numa:2 core:2 pu:2(indexes=core:numa)", "numa:2(memory=1GB) core:2 pu:2(indexes=2*4:4*1)"})
        EXPECT_EQ(shape_text(load_machine({.source = numbered}).machine.shape), "2 x 2") << numbered;
    for (const char* bad : {"package:2 thing:2", "package:0", "package:2 core:", "core:1000000 pu:2", "a:1", "pu:-1"})
        EXPECT_THROW(load_machine({.source = bad}), terrace::error) << bad;
}

TEST(samples, part_of_a_cluster) {
    const std::string node = (samples / "nvswitch.xml").string(), conf = (samples / "topology.conf").string();
    const topology all = load_machine({.source = node, .network = conf});
    EXPECT_EQ(shape_text(all.machine.shape), "4 x 1-4 x 1-2 x 2");
    EXPECT_DOUBLE_EQ(all.machine.levels[1].bandwidth, 50e9);  // two cards of 200 Gbit/s
    const topology some = load_machine({.source = node, .network = conf, .hosts = "n[001,003,006],login"});
    EXPECT_EQ(some.machine.shape, tree({{4, 4, 4, 4}, {2, 2}, {2}}));
    EXPECT_EQ(some.machine.levels[2].name, "core");  // the rows' level would have one child
    EXPECT_EQ(some.machine.hosts, (std::vector<std::string>{"n001", "n003", "n006", "login"}));
    EXPECT_EQ(load_machine({.source = node, .network = conf, .hosts = "n007"}).machine.shape,
              tree::uniform(std::vector{4}));
    EXPECT_THROW(load_machine({.source = node, .network = conf, .hosts = "n[007-008]"}), usage_error);
    EXPECT_THROW(load_machine({.source = node, .hosts = "n007"}), usage_error);
}

// The network has the NICs of the node's file, and each rank uses the nearest.
TEST(samples, nics_of_a_cluster) {
    const auto nodes = [&](const std::string& file, const std::string& network) {
        const fs::path cluster = temporary("nics.yaml");
        std::ofstream(cluster) << "terrace_topology: 1\nname: c\nnode: {" << file
                               << "}\nlevels:\n  - {name: net, size: 2, "
                               << "fabric: infiniband" << network << "}\n";
        return load_machine({.source = cluster.string()}).machine;
    };
    const std::string nvswitch = "nccl: " + (samples / "nvswitch.xml").string();
    const hierarchy given = nodes(nvswitch, ", bandwidth: 20 GB/s");
    EXPECT_EQ(given.nics.of_rank, (std::vector{0, 0, 1, 1, 2, 2, 3, 3}));
    EXPECT_EQ(given.nics.rates, std::vector<double>(4, 10e9));
    EXPECT_EQ(given.levels.back().bandwidth, 20e9);
    const hierarchy found = nodes(nvswitch, "");
    EXPECT_EQ(found.nics.rates.size(), 4U);
    EXPECT_NEAR(found.levels.back().bandwidth, found.nics.rates[0] + found.nics.rates[1], 1e5);
    // The cluster file overrides the NICs; the node's file decides which rank is near to which NIC.
    EXPECT_EQ(nodes(nvswitch, ", nics: {count: 4}").nics.of_rank, (std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
    const hierarchy switches = nodes("hwloc: " + (samples / "pcie-switches.xml").string(), ", nics: {count: 4}");
    EXPECT_EQ(switches.nics.of_rank[7], 3);
    EXPECT_EQ(switches.nics.of_rank[8], 4);
    EXPECT_THROW(nodes(nvswitch, ", nics: {count: 2, ranks: [0, 1]}"), input_error);
}

TEST(samples, the_slurm_job) {
    const std::string conf = (samples / "topology.conf").string();
    ::unsetenv("SLURM_JOB_NODELIST");
    EXPECT_THROW(load_machine({.source = conf, .slurm_job = true}), usage_error);
    ::setenv("SLURM_JOB_NODELIST", "n[001-002],login", 1);
    EXPECT_EQ(load_machine({.source = conf, .slurm_job = true}).machine.shape, tree({{2, 1}, {2}}));
    ::unsetenv("SLURM_JOB_NODELIST");
}

// Only cluster files have no sample, since topologies/ has many.
TEST(samples, every_format_has_one) {
    std::set<std::string_view> formats{"cluster"};
    for (const std::string& file : files()) formats.insert(format_of((samples / file).string()).name);
    for (const topology_format& f : topology_formats()) {
        if (f.line.empty()) EXPECT_TRUE(formats.contains(f.name)) << f.name;
        else EXPECT_GT(load_machine({.source = std::string(f.line)}).machine.ranks(), 0) << f.name;
    }
}

TEST(samples, formats_are_found_by_name) {
    for (const topology_format& f : topology_formats()) EXPECT_EQ(find_format(f.name), &f);
    EXPECT_EQ(find_format("pdf"), nullptr);
}

TEST(samples, other_xml_is_refused_by_name) {
    const fs::path file = temporary("other.xml");
    write_atomically(file, "<?xml version=\"1.0\"?>\n<!-- a > b -->\n<svg/>\n");
    try {
        format_of(file);
        FAIL();
    } catch (const input_error& e) {
        const std::string_view text = e.what();
        EXPECT_TRUE(text.starts_with(file.string() + ": XML with root <svg> is no known format; known are: ")) << text;
        for (const topology_format& f : topology_formats()) EXPECT_NE(text.find(f.description), text.npos) << text;
    }
}

TEST(samples, what_other_programs_print_is_named) {
    for (const auto& [text, program, instead] :
         {std::tuple{"\n=== ROCm System Management Interface ===\nGPU0 GPU1\n", "rocm-smi", "lstopo node.xml"},
          {" \tGPU0\tGPU1\n GPU0\tX\tOK\n\nLegend:\n  CNS  = Chipset not supported\n", "nvidia-smi topo -p2p",
           "nvidia-smi topo -m"},
          {"GPU 0: A (UUID: GPU-1)\n\t Link 0: 25 GB/s\n", "nvidia-smi nvlink", "nvidia-smi topo -m"},
          {"Architecture: x86_64\nCPU op-mode(s): 32-bit, 64-bit\n", "lscpu", "lstopo node.xml"},
          {"available: 2 nodes (0-1)\nnode 0 cpus: 0 1\n", "numactl --hardware", "lstopo node.xml"},
          {"CA 'mlx5_0'\n\tCA type: MT4123\n", "ibstat", "ibnetdiscover"},
          {"1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536\n", "ip addr", "terrace-bench --detect"},
          {"00:00.0 Host bridge: Intel\n", "lspci", "lstopo node.xml"},
          {"Machine (16GB total)\n  Package L#0\n", "lstopo prints as text", "lstopo node.xml"},
          {"NodeName=n[1-2] CPUs=4\n", "Slurm says of nodes", "scontrol show topology"},
          {"NAME   STATUS\nn1  Ready\n", "kubectl get nodes", "-o json"},
          {"+----+\n| XX | GPU0 |\n+----+\n", "a table", "lstopo node.xml"}}) {
        const fs::path file = temporary("other.txt");
        write_atomically(file, text);
        const std::string said = refusal_of<input_error>([&] { format_of(file); });
        EXPECT_EQ(said.find(file.string() + ": this is what "), 0U) << said;
        EXPECT_NE(said.find(program), said.npos) << said;
        EXPECT_NE(said.find(instead), said.npos) << said;
    }
    const fs::path file = temporary("commented.yaml");
    write_atomically(file, "# as nvidia-smi prints:\n+--\nterrace_topology: 1\n");
    EXPECT_EQ(format_of(file).name, "cluster");
}

TEST(samples, lines_above_xml_are_named) {
    const fs::path file = temporary("logged.xml");
    write_atomically(file, "Welcome to node 7\n<?xml version=\"1.0\"?>\n<topology version=\"2.0\"/>\n");
    EXPECT_EQ(refusal_of<input_error>([&] { format_of(file); }),
              file.string() + ": other lines stand before the XML; remove all that is above <?xml");
}

}  // namespace
}  // namespace terrace::detail::samples_test
