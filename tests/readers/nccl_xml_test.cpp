#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "support/refusal.hpp"
#include "support/temporary.hpp"
#include "topology/formats.hpp"
#include "topology/node.hpp"

namespace terrace::detail::nccl_xml_test {
namespace {

std::filesystem::path written(const std::string& text) {
    std::filesystem::path file = temporary("nccl_xml_test.xml");
    write_atomically(file, text);
    return file;
}

hardware import_nccl(const std::filesystem::path& file) { return read_node(*find_format("nccl"), file.string()); }

hierarchy levels_of(const std::string& text) {
    const std::filesystem::path file = written(text);
    return place_ranks(import_nccl(file), rank_unit::gpus, file.string()).levels;
}

std::string error_of(const std::string& text) {
    return refusal_of<input_error>([&] { levels_of(text); });
}

std::string gpu(const std::string& bus, const std::string& inner = "") {
    return "<pci busid=\"" + bus + "\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"16\">" + inner +
           "</pci>\n";
}

std::string in_system(const std::string& inner) {
    return "<system version=\"1\"><cpu numaid=\"0\">\n" + inner + "</cpu></system>\n";
}

TEST(nccl_xml, pairs_with_nvlink) {
    const auto linked = [](const std::string& target) {
        return "<gpu dev=\"" +
               std::string(target == "b"   ? "1"
                           : target == "a" ? "0"
                           : target == "d" ? "3"
                                           : "2") +
               "\" sm=\"70\"><nvlink target=\"" + target + "\" count=\"2\" tclass=\"0x030200\"/></gpu>";
    };
    // GPUs a and c are linked, and b and d. Device numbers interleave the pairs.
    const hierarchy h = levels_of(
        in_system(gpu("a", linked("c")) + gpu("b", linked("d")) + gpu("c", linked("a")) + gpu("d", linked("b"))));
    EXPECT_EQ(shape_text(h.shape), "2 x 2");
    EXPECT_EQ(h.levels[0].medium, fabric::nvlink);
    EXPECT_DOUBLE_EQ(h.levels[0].bandwidth, 50e9);
    EXPECT_EQ(h.levels[1].medium, fabric::pcie);
}

// MI300, MI250, and an unknown model.
TEST(nccl_xml, xgmi_links_have_their_own_rates) {
    const auto pair = [](const std::string& sm) {
        const auto linked = [&](const char* target) {
            return "<gpu sm=\"" + sm + "\"><xgmi target=\"" + target + "\" count=\"2\" tclass=\"0x038000\"/></gpu>";
        };
        return levels_of(in_system(gpu("a", linked("b")) + gpu("b", linked("a")))).levels[0];
    };
    EXPECT_EQ(pair("94").bandwidth, 2 * 64e9);
    EXPECT_EQ(pair("91").bandwidth, 2 * 50e9);
    EXPECT_FALSE(pair("94").bandwidth_assumed);
    EXPECT_TRUE(pair("120").bandwidth_assumed);
}

// GPUs outside the job have no number. The last byte of a GPU's class varies.
TEST(nccl_xml, gpus_are_numbered_by_the_bus_where_one_has_no_number) {
    const std::string other = "<pci busid=\"c\" class=\"0x030201\"/>\n";
    const std::filesystem::path file =
        written(in_system(gpu("b", "<gpu dev=\"0\"/>") + gpu("a", "<gpu dev=\"-1\"/>") + other));
    const node n = place_ranks(import_nccl(file), {}, file.string());
    const std::vector<part>& gpus = n.parts.machine.children[0].children;
    EXPECT_EQ(gpus[0].rank, 1);
    EXPECT_EQ(gpus[1].rank, 0);
    EXPECT_EQ(gpus[1].name, "a");
    EXPECT_EQ(gpus[2].rank, 2);
}

// Two ports of 100 Gbit/s in a slot of 15.75 GB/s.
TEST(nccl_xml, ports_share_their_slot) {
    const std::string nic =
        "<pci busid=\"n\" class=\"0x020700\" link_speed=\"8 GT/s\" link_width=\"16\"><nic>"
        "<net name=\"p0\" speed=\"100000\"/><net name=\"p1\" speed=\"100000\"/></nic></pci>\n";
    const std::filesystem::path file = written(in_system(gpu("a") + gpu("b") + nic));
    const auto up = uplink_of(place_ranks(import_nccl(file), {}, file.string()).parts.machine);
    ASSERT_TRUE(up);
    ASSERT_EQ(up->slots.size(), 1U);
    EXPECT_EQ(up->slots[0].ports, 2);
    EXPECT_NEAR(up->bandwidth, 15.75e9, 1e7);
}

TEST(nccl_xml, errors_say_where_and_what) {
    struct refused {
        std::string text;
        std::string error;
    };
    std::string deep = "<system version=\"1\"><cpu numaid=\"0\">";
    for (int i = 0; i < 200; ++i) deep += "<pci busid=\"a\" class=\"0x060400\">";
    for (int i = 0; i < 200; ++i) deep += "</pci>";
    const std::vector<refused> table{
        {"<system version=\"9\"/>", ":1:2: NCCL topology version \"9\" is not read, only 1"},
        {"<system/>", "version \"\" is not read"},
        {"<system version=\"1\"/>", ":1:2: the system has no <cpu>"},
        {"<topology version=\"1\"/>", ":1:2: expected NCCL's <system>, found <topology>"},
        {"<system version=\"1\">\n<cpu/></system>", ":2:2: <cpu> has no numaid"},
        {in_system("<pcie/>"), ":2:2: <pcie> inside <cpu> is not read; known there: pci, nic, pcilink"},
        {in_system("<pci class=\"0x030200\"/>"), ":2:2: <pci> has no busid"},
        {in_system("<pci busid=\"a\"/>"),
         ":2:2: <pci> has no class; NCCL itself looks it up: run any NCCL program on the node with this file in "
         "NCCL_TOPO_FILE and NCCL_TOPO_DUMP_FILE=node.xml, and give node.xml"},
        {in_system("<pci busid=\"a\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"x\"/>"),
         "link_width \"x\" is not an integer from 0 to 64"},
        {in_system(gpu("a") + gpu("a")), "two GPUs have busid \"a\""},
        {in_system(gpu("a", "<gpu><nvlink target=\"z\" count=\"1\"/></gpu>")), "there is no GPU with busid \"z\""},
        {in_system(gpu("a", "<gpu><nvlink target=\"a\" count=\"-1\"/></gpu>")), "count \"-1\" is not an integer"},
        {in_system(gpu("a", "<gpu/><gpu/>")), "a second <gpu> in one <pci>"},
        {in_system("text"), "text inside <cpu>"},
        {in_system(""), "holds no gpus to place ranks on"},
        {deep + "</cpu></system>", "nested deeper than 128"},
        {"<system version=\"1\">\n<cpu numaid=\"0\">\n</system>", ":3:"},
    };
    for (const refused& r : table) EXPECT_NE(error_of(r.text).find(r.error), std::string::npos) << error_of(r.text);
}

}  // namespace
}  // namespace terrace::detail::nccl_xml_test
