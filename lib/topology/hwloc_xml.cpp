#include "topology/hwloc_xml.hpp"

#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>

#include <fmt/format.h>
#include <hwloc.h>

#include <terrace/error.hpp>

#include "topology/hwloc_hardware.hpp"
#include "topology/xml_file.hpp"

namespace terrace {

namespace {

// ---- Is this a file to show to hwloc? -------------------------------------------------------------------------------

// hwloc's own parser reads neither internal subsets nor public identifiers, and libxml2's result without a system
// identifier makes hwloc 2.9 crash.
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

// What hwloc 2.9 takes for granted in version 2 files, and crashes without.
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

struct destroy_topology {
    void operator()(hwloc_topology_t t) const noexcept { hwloc_topology_destroy(t); }
};
using machine = std::unique_ptr<hwloc_topology, destroy_topology>;

machine empty_machine() {
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) != 0) throw error("hwloc could not be started");
    machine m(raw);
    hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
    return m;
}

// One thread at a time: what hwloc loads to look at devices keeps state of its own (libudev).
machine live_machine() {
    static std::mutex guard;
    const std::lock_guard lock(guard);
    machine m = empty_machine();
    if (hwloc_topology_load(m.get()) != 0) throw error("hwloc cannot describe this machine; try lstopo");
    return m;
}

// A description without what hwloc has in parentheses, attributes of types: "pu:2(indexes=numa:core)".
std::string without_attributes(std::string_view description) {
    std::string bare;
    bool inside = false;
    for (const char c : description) {
        inside |= c == '(';
        if (!inside) bare += c;
        inside &= c != ')';
    }
    return bare;
}

// hwloc takes memory for every object before it finds out that there are too many.
void check_counts(const std::string& description, const std::string& bare) {
    constexpr std::int64_t most = 200'000;
    std::int64_t total = 1;
    for (std::size_t colon = 0; (colon = bare.find(':', colon)) != bare.npos; ++colon) {
        std::int64_t count = 0;
        std::from_chars(bare.data() + colon + 1, bare.data() + bare.size(), count);
        if (count < 1) throw input_error(description, 0, 0, "a number from 1 must follow each colon");
        if (count > most / total) throw input_error(description, 0, 0, fmt::format("more than {} objects", most));
        total *= count;
    }
}

// hwloc wants hardware threads last.
std::string with_threads(const std::string& description, const std::string& bare) {
    const std::size_t last = bare.find_last_of(' ') + 1;  // npos + 1 == 0
    const bool has_them = bare.compare(last, 2, "pu") == 0 || bare.compare(last, 2, "PU") == 0;
    return has_them ? description : description + " pu:1";
}

}  // namespace

hardware import_hwloc(const std::filesystem::path& path) {
    xml_file file(path);
    check(file);
    const machine m = empty_machine();
    // The size counts the terminating NUL.
    if (hwloc_topology_set_xmlbuffer(m.get(), file.text.c_str(), static_cast<int>(file.text.size() + 1)) != 0 ||
        hwloc_topology_load(m.get()) != 0)
        throw input_error(file.name, 0, 0, "hwloc refuses it: not a topology that lstopo wrote, or a damaged one");
    return hardware_of(m.get());
}

hardware synthetic_hardware(const std::string& description) {
    const std::string bare = without_attributes(description);
    check_counts(description, bare);
    const machine m = empty_machine();
    if (hwloc_topology_set_synthetic(m.get(), with_threads(description, bare).c_str()) != 0 ||
        hwloc_topology_load(m.get()) != 0)
        throw input_error(description, 0, 0,
                          "not a machine in hwloc's notation; write types from the outside in, each with how many "
                          "there are in one of the type before, as in \"package:2 core:4\"");
    return hardware_of(m.get());
}

hardware this_hardware() { return hardware_of(live_machine().get()); }

std::string this_hardware_xml() {
    const machine m = live_machine();
    char* text = nullptr;
    int length = 0;
    if (hwloc_topology_export_xmlbuffer(m.get(), &text, &length, 0) != 0)
        throw error("hwloc cannot write this machine as XML");
    const std::string copy(text);
    hwloc_free_xmlbuffer(m.get(), text);
    return copy;
}

}  // namespace terrace
