// The matrix that nvidia-smi topo -m prints: NVLinks, PCIe, NUMA nodes, NICs.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/text_file.hpp"
#include "support/refusal.hpp"
#include "support/temporary.hpp"
#include "topology/formats.hpp"
#include "topology/nodes.hpp"

namespace terrace::detail::nvidia_smi_test {
namespace {

topology read(const std::string& text, std::optional<gpu_fabric> gpus = {}) {
    const std::filesystem::path file = temporary("matrix.txt");
    write_atomically(file, text);
    return read_machine(format_of(file.string()), file.string(), {}, {.read_node = read_node, .gpus = std::move(gpus)});
}

std::string error_of(const std::string& text) {
    return refusal_of([&] { read(text); });
}

TEST(nvidia_smi, links_into_switches) {
    const topology t = read(
        "\t\x1b[4mGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\x1b[0m\nGPU0\t X \tNV12\tNV12\t0-3\t0\n"
        "GPU1\tNV12\t X \tNV12\t\t1\nGPU2\tNV12\tNV12\t X \t\t1\n");
    ASSERT_EQ(t.machine.levels.size(), 1U);
    EXPECT_EQ(t.machine.levels[0].medium, fabric::nvlink);
    EXPECT_EQ(t.machine.levels[0].bandwidth, 12 * 25e9);
    EXPECT_TRUE(t.machine.levels[0].bandwidth_assumed);
    ASSERT_EQ(t.notes.size(), 1U);
    EXPECT_NE(t.notes[0].find("300 GB/s, is assumed: 25 GB/s for each NVLink"), std::string::npos) << t.notes[0];
    EXPECT_EQ(t.node->children.size(), 2U);  // NUMA nodes
}

TEST(nvidia_smi, links_from_gpu_to_gpu) {
    const std::string text =
        "      GPU0 GPU1 GPU2 GPU3 CPU Affinity NUMA Affinity\nGPU0 X NV2 SYS SYS 0-3 0\nGPU1 NV2 X SYS SYS 0-3 0\n"
        "GPU2 SYS SYS X NV2 4-7 1\nGPU3 SYS SYS NV2 X 4-7 1\n";
    const topology t = read(text);
    EXPECT_EQ(t.machine.shape, tree::uniform(std::vector{2, 2}));
    EXPECT_EQ(t.machine.levels[0].medium, fabric::nvlink);
    EXPECT_EQ(t.machine.levels[0].bandwidth, 50e9);
    const topology given = read(text, gpu_fabric{"nvlink", 100e9});  // the file has no rates
    EXPECT_EQ(given.machine.levels[0].bandwidth, 100e9);
    EXPECT_FALSE(given.machine.levels[0].bandwidth_assumed);
}

TEST(nvidia_smi, pcie_and_nics) {
    const topology t = read(
        "GPU0 GPU1 GPU2 GPU3 NIC0 NIC1 CPU Affinity NUMA Affinity\nGPU0 X PIX SYS SYS PIX SYS 0-3 0\n"
        "GPU1 PIX X SYS SYS PIX SYS 0-3 0\nGPU2 SYS SYS X PHB SYS NODE 4-7 1\nGPU3 SYS SYS PHB X SYS PHB 4-7 1\n"
        "\nNIC Legend:\n\n  NIC0: mlx5_7\n  NIC1: mlx5_8\n");
    EXPECT_EQ(t.machine.shape, tree({{2, 1, 1}, {1, 2}, {2}}));  // switch, host bridge, node
    EXPECT_EQ(t.machine.levels[0].medium, fabric::pcie);
    EXPECT_TRUE(t.warnings.empty());  // the matrix is complete: there is no NVLink
    const part& first = t.node->children.at(0).children.at(0);
    EXPECT_EQ(first.what, part::kind::bus_switch);
    EXPECT_EQ(first.children.at(1).nearest_nic, "mlx5_7");
    const part& second = t.node->children.at(1).children.at(0);
    EXPECT_EQ(second.what, part::kind::root);
    EXPECT_EQ(second.children.at(0).nearest_nic, "mlx5_8");
}

TEST(nvidia_smi, errors_say_where_and_what) {
    const std::string head = "GPU0 GPU1 CPU Affinity\n";
    for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
             {head, ": GPU0 has no line"},
             {head + "GPU0 X\n", ":2:1: GPU0 has 1 cells, but there are 2 devices"},
             {head + "GPU0 X NV0\n", ":2:1: \"NV0\" is none of NV1 to NV18"},
             {head + "GPU0 X FAR\n", ":2:1: \"FAR\" is none of"},
             {head + "GPU0 X SYS\nGPU0 X SYS\n", ":3:1: GPU0 has two lines"},
             {"GPU0 GPU0 CPU Affinity\n", ":1:1: GPU0 is there twice"}})
        EXPECT_NE(error_of(text).find(what), std::string::npos) << error_of(text);
}

}  // namespace
}  // namespace terrace::detail::nvidia_smi_test
