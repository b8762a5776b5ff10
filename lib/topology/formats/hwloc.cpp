#include "topology/formats/hwloc.hpp"

#include <cstring>
#include <mutex>
#include <string_view>

#include <fmt/format.h>
#include <hwloc.h>

#include <terrace/error.hpp>

#include "base/keep_for_ever.hpp"
#include "topology/formats.hpp"
#include "topology/formats/hwloc_hardware.hpp"
#include "topology/formats/xml_file.hpp"

namespace terrace::detail {

namespace {

// ---- Checks before hwloc reads a file -------------------------------------------------------------------------------

// Accepts the document types that lstopo writes. hwloc's own parser reads neither internal subsets nor public
// identifiers; with libxml2, a document type without a system identifier makes hwloc 2.9 crash.
void check_doctype(const xml_file& file, const pugi::xml_node& doctype) {
    const std::string_view text = doctype.value();
    if (text != "topology SYSTEM \"hwloc.dtd\"" && text != "topology SYSTEM \"hwloc2.dtd\"")
        file.fail(doctype,
                  "the document type must be: topology SYSTEM \"hwloc2.dtd\", as lstopo writes it, or left out");
}

void check_version(const xml_file& file, const pugi::xml_node& root) {
    const std::string_view version = root.attribute("version").as_string("1.0");
    if (!version.starts_with("1.") && !version.starts_with("2."))
        file.fail(root, fmt::format("hwloc XML version \"{}\" is not read, only 1.x and 2.x; "
                                    "write the file with hwloc 2, or with lstopo --export-xml-flags v2 of hwloc 3",
                                    version));
}

// Checks that objects have the attributes that hwloc 2.9 needs in version 2 files; without them it crashes.
struct object_checker : pugi::xml_tree_walker {
    explicit object_checker(const xml_file& f) : file(f) {}
    bool for_each(pugi::xml_node& node) override {
        if (std::strcmp(node.name(), "object") != 0) return true;
        for (const char* set : {"cpuset", "nodeset"}) {
            const std::string complete = fmt::format("complete_{}", set);
            if (node.attribute(set) && !node.attribute(complete.c_str()))
                file.fail(node, fmt::format("the object has a {} but no {}", set, complete));
        }
        return true;
    }
    const xml_file& file;
};

void check(xml_file& file) {
    for (const pugi::xml_node& top : file.document)
        if (top.type() == pugi::node_doctype) check_doctype(file, top);
    const pugi::xml_node root = file.document.document_element();
    if (std::strcmp(root.name(), "topology") != 0)
        file.fail(root, fmt::format("expected hwloc's <topology>, found <{}>", root.name()));
    check_version(file, root);
    object_checker walker(file);
    file.document.traverse(walker);
}

// ---- hwloc ----------------------------------------------------------------------------------------------------------

// Loads this machine, in one thread at a time: a library that hwloc uses for devices (libudev) keeps state of its own.
hwloc_machine live_machine(unsigned long flags = 0) {
    static std::mutex guard;
    const std::lock_guard lock(guard);
    hwloc_machine m = empty_hwloc_machine();
    hwloc_topology_set_flags(m.get(), flags);
    if (hwloc_topology_load(m.get()) != 0) throw error("hwloc cannot describe this machine; try lstopo");
    return m;
}

// True for hwloc's root element, and for XML whose root has no valid name: the reader then reports the error's place.
bool is_hwloc(const source_start& start) {
    if (!start.is_file || !start.text.starts_with('<')) return false;
    constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz";
    return start.root == "topology" || start.root.empty() || start.root.find_first_not_of(letters) != start.root.npos;
}

// Reads one node from an hwloc XML file (versions 1 and 2, as lstopo writes it). GPUs are devices that CUDA, NVML, ROCm
// SMI or Level Zero found, and PCI devices of classes 0302, 0380 and 1200; if there are none, display adapters (0300).
// NICs are OpenFabrics and network devices, and PCI devices of classes 0200, 0207, 0208 and 0c06.
//
// hwloc may still end the process on a broken file that passes these checks, so files of unknown origin are imported in
// a child process. @throws input_error
hardware import_hwloc(const std::string& path) {
    xml_file file(path);
    check(file);
    const hwloc_machine m = empty_hwloc_machine();
    // The size counts the terminating NUL.
    if (hwloc_topology_set_xmlbuffer(m.get(), file.text.c_str(), static_cast<int>(file.text.size() + 1)) != 0 ||
        hwloc_topology_load(m.get()) != 0)
        throw input_error(file.name, 0, 0, "hwloc refuses it: not a topology that lstopo wrote, or a damaged one");
    return hardware_of(m.get());
}

}  // namespace

topology_format hwloc_format() {
    return {.name = "hwloc",
            .description = "a node's hwloc XML",
            .sniff = is_hwloc,
            .read = import_hwloc,
            .may_crash = true};
}

// Looks for devices only once: hwloc's module for PCI devices leaks a kilobyte each time.
hardware this_hardware() {
    static const auto& here = kept_for_ever(hardware_of(live_machine().get()));
    return here;
}

usable_machine usable_hardware() {
    const hwloc_machine m =
        live_machine(HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM | HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING);
    char* text = nullptr;
    int length = 0;
    if (hwloc_topology_export_xmlbuffer(m.get(), &text, &length, 0) != 0)
        throw error("hwloc cannot write this machine as XML");
    usable_machine here{hardware_of(m.get()), text};
    hwloc_free_xmlbuffer(m.get(), text);
    return here;
}

}  // namespace terrace::detail
