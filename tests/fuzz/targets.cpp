#include "fuzz/targets.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/hosts.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "plan/plan_yaml.hpp"
#include "tools/common/import_child.hpp"
#include "tools/terrace/exports/formats.hpp"
#include "topology/describe.hpp"
#include "topology/formats.hpp"
#include "topology/restrict.hpp"

namespace terrace::detail {

namespace {

// Returns the path of an unnamed file with these bytes.
const std::string& file_of(std::string_view bytes) {
    static const int fd = ::memfd_create("fuzz", 0);
    static const std::string path = fmt::format("/proc/self/fd/{}", fd);
    if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        std::perror("fuzz");
        std::abort();
    }
    return path;
}

// Prints an accepted topology, and aborts if its written form does not read back equal.
void use(const topology& t) {
    if (t.machine.ranks() > 100'000) return;
    describe_text(t);
    describe_json(t);
    const std::string text = write_hierarchy(t.machine, 0);
    if (write_hierarchy(read_hierarchy(document::parse(text, "again")), 0) != text) std::abort();
}

// Reads a source of this format; in a child process, as in the programs, if its reader may crash on bad input.
void read_topology(const topology_format& format, std::string_view bytes) {
    const std::string source = format.line.empty() ? file_of(bytes) : std::string(bytes);
    const auto refuse = [](const topology_format&, const std::string& what) -> hardware {
        throw input_error(what, 0, 0, "not read here");
    };
    const node_reader read = format.may_crash ? node_reader(read_node_in_child) : node_reader(read_node);
    use(read_machine(format, source, {}, {.read_node = format.describes_node() ? read : refuse}));
}

void read_hosts(std::string_view bytes) {
    for (const job_host& h : parse_hostfile(bytes, "hosts"))
        if (expand_hosts(fold_hosts(std::vector{h.name})).front() != h.name) std::abort();
}

void read_plan(std::string_view bytes) { parse_plan(bytes, "plan"); }

// Reads the files of an exported call, which `bytes` joins by a separator, or the one file of an exported plan.
void read_export(const export_format& format, std::string_view bytes) {
    constexpr std::string_view between = "\n-- next file --\n";
    std::vector<named_text> files;
    for (std::size_t begin = 0; begin <= bytes.size();) {
        const std::size_t end =
            format.ending.empty() ? bytes.size() : std::min(bytes.size(), bytes.find(between, begin));
        files.push_back({"file", std::string(bytes.substr(begin, end - begin))});
        begin = end + between.size();
    }
    if (format.read != nullptr) format.read(files[0]);
    else format.read_call(files).fault();
}

bool costs_more(std::string_view format) { return format == "cluster" || format == "aws" || format == "kubernetes"; }

std::vector<fuzz_target> all_targets() {
    std::vector<fuzz_target> all{{"hosts", read_hosts, 4000}, {"plan", read_plan, 500}};
    for (const topology_format& f : topology_formats()) {
        // Fewer for formats that cost more per source: a process each, or a document with many values.
        const int mutations = f.may_crash ? 60 : costs_more(f.name) ? 1000 : 4000;
        all.push_back({std::string(f.name), [&f](std::string_view bytes) { read_topology(f, bytes); }, mutations});
    }
    for (const export_format& f : export_formats())
        all.push_back(
            {fmt::format("export-{}", f.name), [&f](std::string_view bytes) { read_export(f, bytes); }, 4000});
    return all;
}

}  // namespace

std::span<const fuzz_target> fuzz_targets() {
    static const std::vector<fuzz_target> targets = all_targets();
    return targets;
}

}  // namespace terrace::detail
