#include "support/refusal.hpp"
#include "topology/formats/hwloc.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "support/temporary.hpp"
#include "tools/common/import_child.hpp"
#include "topology/formats.hpp"
#include "topology/node.hpp"

namespace terrace::detail::hwloc_xml_test {
namespace {

const std::filesystem::path root = TERRACE_SOURCE_ROOT;
const std::filesystem::path captured = root / ".." / "shared" / "topologies";

// Imports a file by hwloc's own XML parser or libxml2, in a child process, since a process chooses only once.
hierarchy import(const std::filesystem::path& file, rank_unit ranks, const char* libxml) {
    const auto chosen = [&] {
        ::setenv("HWLOC_LIBXML", libxml, 1);
        return read_node(*find_format(file.parent_path().filename() == "nccl" ? "nccl" : "hwloc"), file.string());
    };
    return place_ranks(import_in_child(chosen, file.string()), ranks, file.string()).levels;
}

std::string error_of(const std::filesystem::path& file, const char* libxml) {
    return refusal_of<input_error>([&] { import(file, rank_unit::gpus, libxml); });
}

std::string error_of_text(const std::string& text) {
    const std::filesystem::path file = temporary("hwloc_xml_test.xml");
    write_atomically(file, text);
    return error_of(file, "1");
}

TEST(hwloc_xml, own_nvlink_node) {
    for (const char* libxml : {"0", "1"}) {
        const hierarchy gpus = import(root / "topologies/paper-nvlink-100gib/node.xml", rank_unit::gpus, libxml);
        EXPECT_EQ(write_hierarchy(gpus, 0),
                  "levels:\n"
                  "  - {name: socket, size: 2, fabric: nvlink, bandwidth: 40 GB/s, latency: 2 us, assumed: [latency, "
                  "overhead]}\n"
                  "  - {name: node, size: 2, fabric: bus, bandwidth: 16 GB/s, latency: 1 us, assumed: [bandwidth, "
                  "latency, overhead]}\n");
        EXPECT_EQ(shape_text(import(root / "topologies/paper-nvlink-100gib/node.xml", rank_unit::cores, libxml).shape),
                  "10 x 2");
    }
}

struct capture {
    const char* file;
    rank_unit ranks;
    const char* expected;  // fabrics, shape, and rate of level 0 if the file gives it
};

class captured_machine : public ::testing::TestWithParam<capture> {};

TEST_P(captured_machine, has_these_levels) {
    const std::filesystem::path file = captured / GetParam().file;
    if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is absent";
    for (const char* libxml : {"0", "1"}) {
        const hierarchy h = import(file, GetParam().ranks, libxml);
        std::string found;
        for (const level& l : h.levels) found += l.name + ":" + std::string(to_string(l.medium)) + " ";
        found += shape_text(h.shape);
        if (!h.levels[0].bandwidth_assumed)
            found += " " + std::to_string(static_cast<int>(h.levels[0].bandwidth / 1e6)) + " MB/s";
        EXPECT_EQ(found, GetParam().expected);
    }
}

INSTANTIATE_TEST_SUITE_P(
    hwloc_xml, captured_machine,
    ::testing::Values(
        capture{"hwloc/ibm-s822lc-4xP100-nvlink.xml", rank_unit::gpus, "socket:nvlink node:bus 2 x 2 40000 MB/s"},
        capture{"hwloc/nvidia-dgx2-16xV100-nvswitch.xml", rank_unit::gpus, "node:nvlink 16 150000 MB/s"},
        capture{"hwloc/juwels-booster-4xA100-4xHDR.xml", rank_unit::gpus, "node:nvlink 4"},
        capture{"hwloc/jureca-dc-4xA100-4xIB.xml", rank_unit::gpus, "node:nvlink 4"},
        capture{"hwloc/jureca-dc-4xA100-4xIB.xml", rank_unit::cores,
                "l3:shm numa:shm socket:shm node:bus 4 x 4 x 4 x 2"},
        capture{"hwloc/jureca-dc-4xA100-4xIB.xml", rank_unit::numa, "socket:shm node:bus 4 x 2"},
        capture{"hwloc/jureca-dc-4xA100-4xIB.xml", rank_unit::packages, "node:bus 2"},
        capture{"nccl/azure-ndv4-8xA100-8xHDR.xml", rank_unit::gpus, "numa:pcie node:bus 2 x 4 31507 MB/s"},
        capture{"nccl/azure-ndv5-8xH100-8xNDR.xml", rank_unit::gpus, "numa:pcie node:bus 4 x 2 63015 MB/s"},
        capture{"hwloc/xeon-2s-2gpu-qdr.xml", rank_unit::gpus, "socket:pcie node:bus 1-2 x 2"},
        capture{"hwloc/xeon-2s-pci.xml", rank_unit::gpus, "socket:pcie node:bus 1-2 x 2 4000 MB/s"}));

TEST(hwloc_xml, hostile_files_are_errors) {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(root / "topologies/hostile")) {
        ++files;
        for (const char* libxml : {"0", "1"}) {
            const std::string error = error_of(entry.path(), libxml);
            EXPECT_EQ(error.find(entry.path().string() + ":"), 0u) << error;
            EXPECT_EQ(error.find("signal"), std::string::npos) << error;  // an error, not a crash
        }
    }
    EXPECT_EQ(files, 4);
}

TEST(hwloc_xml, errors_say_what_is_wrong) {
    struct refused {
        std::string text;
        std::string error;
    };
    std::string deep = "<topology version=\"2.0\">";
    for (int i = 0; i < 200; ++i) deep += "<object type=\"Group\">";
    for (int i = 0; i < 200; ++i) deep += "</object>";
    const std::vector<refused> table{
        {"<topology version=\"3.0\"></topology>", "version \"3.0\" is not read, only 1.x and 2.x"},
        {"<system version=\"1\"></system>", ":1:2: expected hwloc's <topology>, found <system>"},
        {"<!DOCTYPE topology [<!ENTITY a \"b\">]>\n<topology version=\"2.0\"/>", "the document type must be"},
        {deep + "</topology>", "nested deeper than 128"},
        {"<topology version=\"2.0\">\n  <object>\n</topology>", ":3:"},
        {"<topology version=\"2.0\"></topology>",
         "hwloc refuses it: not a topology that lstopo wrote, or a damaged one"},
        {std::string("\xff\xfe<\0t\0", 6), ":1:1: the text is UTF-16"},
        {"<topology version=\"2.0\">\n \xe4", ":2:2: byte 0xe4 is not UTF-8"},
        {std::string("<topology\0/>", 12), ":1:10: byte 0x00 is a control character"},
        {"", "not well-formed XML"},
        {std::string(300'001, '<'), "more than 300000 XML elements"},
    };
    for (const refused& r : table)
        EXPECT_NE(error_of_text(r.text).find(r.error), std::string::npos) << error_of_text(r.text);
    EXPECT_NE(error_of("/nowhere/node.xml", "1").find("/nowhere/node.xml: cannot be opened"), std::string::npos);
}

TEST(hwloc_xml, without_gpus_other_ranks_are_named) {
    const std::string text = read_text(root / "topologies/paper-nvlink-100gib/node.xml", 1 << 20);
    std::string without = text;
    for (const char* type : {"\"Bridge\"", "\"PCIDev\"", "\"OSDev\""})
        for (std::size_t at; (at = without.find(type)) != std::string::npos;)
            without.replace(at, std::string(type).size(), "\"Misc\"");
    without.erase(without.find("  <distances2hetero"),
                  without.find("</distances2hetero>\n") + 20 - without.find("  <distances2hetero"));
    const std::string error = error_of_text(without);
    EXPECT_NE(error.find("holds no gpus to place ranks on; choose others of gpus, cores, numa, packages"),
              std::string::npos)
        << error;
}

// Returns a machine of two cores and these devices, read from XML as `lstopo` writes it.
node with_devices(const std::string& devices) {
    const auto sets = [](int cores) {
        return fmt::format(R"(cpuset="{0}" complete_cpuset="{0}" nodeset="1" complete_nodeset="1")", cores);
    };
    std::string cores;
    for (int c = 0; c < 2; ++c)
        cores +=
            fmt::format(R"(<object type="Core" os_index="{0}" {1}><object type="PU" os_index="{0}" {1}/></object>)", c,
                        sets(1 << c));
    const std::filesystem::path file = temporary("hwloc_xml_test.xml");
    write_atomically(
        file, fmt::format(R"(<topology version="2.0"><object type="Machine" {0} allowed_cpuset="3" )"
                          R"(allowed_nodeset="1"><object type="NUMANode" os_index="0" {0}/>{1}{2}</object></topology>)",
                          sets(3), cores, devices));
    return place_ranks(read_node_in_child(*find_format("hwloc"), file.string()), {}, file.string());
}

std::string pci(int slot, const std::string& kind) {
    return fmt::format(R"(<object type="PCIDev" pci_busid="0000:00:{:02x}.0" pci_type="{} [0000:0000] 00"/>)", slot,
                       kind);
}

// QXL, Bochs, Cirrus, VMware, Hyper-V, iBMC, virtio, and a GPU inside a processor.
TEST(hwloc_xml, display_adapters_are_no_gpus) {
    for (const char* display : {"0300 [1b36:0100]", "0300 [1234:1111]", "0300 [1013:00b8]", "0300 [15ad:0405]",
                                "0300 [1414:5353]", "0300 [19e5:1711]", "0380 [1af4:1050]", "0300 [8086:3e98]"}) {
        EXPECT_EQ(shape_text(with_devices(pci(2, display)).levels.shape), "2") << display;  // cores
        EXPECT_EQ(shape_text(with_devices(pci(2, display) + pci(5, "0302 [10de:20b0]")).levels.shape), "1") << display;
    }
    EXPECT_EQ(shape_text(with_devices(pci(5, "0300 [10de:2204]")).levels.shape), "1");
    EXPECT_EQ(shape_text(with_devices(pci(5, "0380 [8086:0bd5]")).levels.shape), "1");
}

std::string os_device(const std::string& name, int type) {
    return fmt::format(R"(<object type="OSDev" name="{}" osdev_type="{}"/>)", name, type);
}

// A console is known by ATI's device numbers, or by a driver that offers only a card. With a renderer it is a GPU.
TEST(hwloc_xml, consoles_by_makers_of_gpus_are_noted) {
    const auto display = [](const std::string& kind, const std::string& inner) {
        return fmt::format(R"(<object type="PCIDev" pci_busid="0000:00:05.0" pci_type="{} [0000:0000] 00">{}</object>)",
                           kind, inner);
    };
    const std::string card = os_device("card0", 1), renderer = os_device("renderD128", 1);
    for (const std::string& console :
         {display("0300 [1002:515e]", card), display("0300 [1002:4752]", ""), display("0300 [10de:03d0]", card)}) {
        const node n = with_devices(console);
        EXPECT_EQ(shape_text(n.levels.shape), "2") << console;  // cores
        ASSERT_EQ(n.parts.notes.size(), 1U) << console;
        EXPECT_EQ(n.parts.notes[0], "display adapter 0000:00:05.0 is for a console and counts as no GPU");
        EXPECT_TRUE(with_devices(console + pci(6, "0302 [10de:20b0]")).parts.notes.empty()) << console;
    }
    EXPECT_EQ(shape_text(with_devices(display("0300 [1002:744c]", card + renderer)).levels.shape), "1");
}

// An adapter with two ports behind a bridge, and its virtual functions, whose numbers look like those of other devices.
TEST(hwloc_xml, functions_are_of_one_adapter) {
    const auto adapter = [](const std::string& functions) {
        return R"(<object type="Bridge" bridge_type="0-1" depth="0" bridge_pci="0000:[00-10]">)"
               R"(<object type="Bridge" bridge_type="1-1" depth="1" bridge_pci="0000:[03-03]" )"
               R"(pci_busid="0000:00:01.0" )"
               R"(pci_type="0604 [8086:2030] [0000:0000] 00" pci_link_speed="15.75">)" +
               functions + "</object></object>";
    };
    const auto function = [](const std::string& at, const std::string& model) {
        return fmt::format(R"(<object type="PCIDev" pci_busid="0000:03:{}" pci_type="0207 [15b3:{}] [0000:0000] 00" )"
                           R"(pci_link_speed="15.75">{}</object>)",
                           at, model, os_device("mlx5_" + at, 3));
    };
    std::string virtual_ones;
    for (const char* at : {"00.2", "00.3", "01.0", "01.7"}) virtual_ones += function(at, "1018");
    const auto uplink_behind = [&](const std::string& functions) {
        return uplink_of(with_devices(adapter(functions)).parts.machine).value_or(uplink{});
    };
    const uplink physical = uplink_behind(function("00.0", "1017") + function("00.1", "1017") + virtual_ones);
    EXPECT_EQ(physical.nics.size(), 2U);
    EXPECT_DOUBLE_EQ(physical.bandwidth, 15.75e9);
    const uplink guest = uplink_behind(virtual_ones);  // a virtual machine sees only these
    EXPECT_EQ(guest.slots.size(), 1U);
    EXPECT_DOUBLE_EQ(guest.bandwidth, 15.75e9);
}

TEST(hwloc_xml, gpus_without_pci_count_once) {
    std::string seen;
    for (const auto& [name, type] : {std::pair{"cuda", 5}, {"nvml", 1}})
        for (int i = 0; i < 3; ++i) seen += os_device(fmt::format("{}{}", name, i), type);
    EXPECT_EQ(shape_text(with_devices(seen).levels.shape), "3");
}

std::string child_error(const std::function<hardware()>& import, const import_limits& limits = {}) {
    return refusal_of<input_error>([&] { import_in_child(import, "node.xml", limits); });
}

TEST(import_child, however_it_ends_is_an_error) {
    EXPECT_NE(child_error([]() -> hardware {
                  std::raise(SIGKILL);
                  return {};
              }).find("node.xml: its import ended by signal 9"),
              std::string::npos);
    EXPECT_NE(child_error([]() -> hardware { ::_exit(3); }).find("ended with status 3"), std::string::npos);
    EXPECT_EQ(child_error([]() -> hardware { throw input_error("node.xml", 3, 4, "a: b"); }), "node.xml:3:4: a: b");
    EXPECT_EQ(child_error([]() -> hardware { throw std::bad_alloc(); }), "node.xml: the import needs too much memory");
}

TEST(import_child, has_limits) {
    const auto hang = []() -> hardware {
        while (true) ::pause();
    };
    EXPECT_NE(child_error(hang, {.wall = std::chrono::milliseconds(50)}).find("took longer than 50 ms"),
              std::string::npos);
    const auto spin = []() -> hardware {
        while (::getpid() > 0) {}
        return {};
    };
    EXPECT_NE(child_error(spin, {.wall = std::chrono::milliseconds(60'000)}).find("CPU time limit"), std::string::npos);
    const auto bloat = []() -> hardware { return {{.children = std::vector<part>(10'000'000)}, {}, {}}; };
    const std::string error = child_error(bloat);
    const bool ended = error.find("ended") != std::string::npos;  // a sanitizer ends the process instead
    EXPECT_TRUE(ended || error.find("needs too much memory") != std::string::npos) << error;
}

}  // namespace
}  // namespace terrace::detail::hwloc_xml_test
