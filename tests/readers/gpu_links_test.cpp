// Links between GPUs that a node's file leaves out: they follow from the model or an option, or cause a warning.

#include "topology/gpu_links.hpp"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/text_file.hpp"
#include "support/temporary.hpp"
#include "topology/describe.hpp"
#include "topology/formats.hpp"

namespace terrace::detail::gpu_links_test {
namespace {

std::string gpu(const std::string& bus, const std::string& attributes, const std::string& inner = "") {
    return "<pci busid=\"" + bus + "\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\" " + attributes +
           ">" + inner + "</pci>\n";
}

// Returns the file of a node with two GPUs at each of two processors.
std::string four_gpus(const std::string& attributes, const std::string& inner = "") {
    return "<system version=\"1\">\n<cpu numaid=\"0\">" + gpu("a", attributes, inner) + gpu("b", attributes, inner) +
           "</cpu>\n<cpu numaid=\"1\">" + gpu("c", attributes, inner) + gpu("d", attributes, inner) +
           "</cpu></system>\n";
}

topology read(const std::string& text, const std::string& fabric = "", std::optional<rank_unit> ranks = {}) {
    const std::filesystem::path file = temporary("gpus.xml");
    write_atomically(file, text);
    const read_options options{.read_node = read_node,
                               .gpus = fabric.empty() ? std::nullopt : parse_gpu_fabric(fabric)};
    return read_machine(format_of(file.string()), file.string(), ranks, options);
}

TEST(gpu_links, unknown_ones_are_warned_of) {
    const topology t = read(four_gpus(""));
    EXPECT_EQ(t.machine.levels.back().medium, fabric::bus);
    ASSERT_EQ(t.warnings.size(), 1U);
    EXPECT_NE(t.warnings[0].find("--gpu-fabric nvlink:300GB/s"), std::string::npos);
    EXPECT_NE(describe_text(t).find("\nwarning: the file says nothing of NVLink"), std::string::npos);
    EXPECT_NE(describe_json(t).find("\"warnings\": [\n    \"the file says"), std::string::npos) << describe_json(t);
}

TEST(gpu_links, an_option_says_them) {
    const topology linked = read(four_gpus(""), "nvlink:300GB/s");
    ASSERT_EQ(linked.machine.levels.size(), 1U);
    EXPECT_EQ(linked.machine.levels[0].medium, fabric::nvlink);
    EXPECT_EQ(linked.machine.levels[0].bandwidth, 300e9);
    EXPECT_FALSE(linked.machine.levels[0].bandwidth_assumed);
    EXPECT_TRUE(linked.warnings.empty());
    const topology none = read(four_gpus("vendor=\"0x10de\" device=\"0x20b0\""), "none");
    EXPECT_EQ(none.machine.levels.size(), 2U);
    EXPECT_TRUE(none.warnings.empty());
    EXPECT_TRUE(none.notes.empty());
}

TEST(gpu_links, models_are_known_by_their_pci_numbers) {
    const topology a100 = read(four_gpus("vendor=\"0x10de\" device=\"0x20b0\""));
    ASSERT_EQ(a100.machine.levels.size(), 1U);
    EXPECT_EQ(a100.machine.levels[0].bandwidth, 300e9);
    EXPECT_TRUE(a100.machine.levels[0].bandwidth_assumed);
    ASSERT_EQ(a100.notes.size(), 1U);
    EXPECT_NE(a100.notes[0].find("A100 SXM4"), std::string::npos);
    const topology l4 = read(four_gpus("vendor=\"0x10de\" device=\"0x27b8\""));
    EXPECT_EQ(l4.machine.levels.size(), 2U);
    EXPECT_TRUE(l4.warnings.empty());
    EXPECT_TRUE(read(four_gpus("vendor=\"0x10de\" device=\"0x1094\"")).warnings.empty());  // older than NVLink
    EXPECT_EQ(read(four_gpus("vendor=\"0x10de\" device=\"0x20f1\"")).warnings.size(),
              1U);  // A100 PCIe: may have a bridge
}

TEST(gpu_links, nccl_lists_all_that_it_found) {
    const topology t = read(four_gpus("vendor=\"0x10de\" device=\"0x20b0\"", "<gpu sm=\"80\"/>"));
    EXPECT_EQ(t.machine.levels.size(), 2U);
    EXPECT_TRUE(t.warnings.empty());
    ASSERT_EQ(t.notes.size(), 1U);  // this model has NVLink
    EXPECT_NE(t.notes[0].find("lists no NVLink between the 4 GPUs of a node, which are planned over PCIe"),
              std::string::npos)
        << t.notes[0];
    EXPECT_TRUE(read(four_gpus("vendor=\"0x10de\" device=\"0x27b8\"", "<gpu sm=\"89\"/>")).notes.empty());
}

TEST(gpu_links, the_importing_process_tells_of_them) {
    hardware h{
        .machine = {.children = {{.what = part::kind::gpu, .pci = 0x10de20b0}}}, .wires = {}, .wires_known = true};
    const hardware again = read_hardware(write_hardware(h));
    EXPECT_EQ(again.machine.children[0].pci, 0x10de20b0U);
    EXPECT_TRUE(again.wires_known);
}

TEST(gpu_links, what_is_none_is_refused) {
    for (const char* text : {"", "nvlink", "nvlink:", "nvlink:fast", "nvlink:-1 GB/s", "pcie:3GB/s", "none:1GB/s"})
        EXPECT_FALSE(parse_gpu_fabric(text)) << text;
    EXPECT_EQ(parse_gpu_fabric("xgmi:64 GB/s")->rate, 64e9);
    const std::string linked = "<gpu sm=\"80\"><nvlink target=\"x\" count=\"12\" tclass=\"0x068000\"/></gpu>";
    EXPECT_THROW(read(four_gpus("", linked), "nvlink:300GB/s"), usage_error);
}

}  // namespace
}  // namespace terrace::detail::gpu_links_test
