#include "fuzz/targets.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/hierarchy_yaml.hpp"
#include "base/hosts.hpp"
#include "plan/plan_yaml.hpp"
#include "tools/import_child.hpp"
#include "topology/cluster_yaml.hpp"
#include "topology/describe.hpp"
#include "topology/formats.hpp"
#include "topology/restrict.hpp"
#include "topology/slurm_conf.hpp"

namespace terrace {

namespace {

// A file without a name that holds the bytes.
const std::string& file_of(std::string_view bytes) {
    static const int fd = ::memfd_create("fuzz", 0);
    static const std::string path = fmt::format("/proc/self/fd/{}", fd);
    if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        std::perror("fuzz");
        std::abort();
    }
    return path;
}

// What is accepted must also be printable, and read back.
void use(const topology& t) {
    if (t.machine.ranks() > 100'000) return;
    describe_text(t);
    describe_json(t);
    const std::string text = write_hierarchy(t.machine, 0);
    if (write_hierarchy(read_hierarchy(document::parse(text, "again")), 0) != text) std::abort();
}

void read_cluster_file(std::string_view bytes) {
    use(read_cluster(file_of(bytes), [](node_format, const std::string& what) -> hardware {
        throw input_error(what, 0, 0, "not read here");
    }));
}

void read_nccl(std::string_view bytes) {
    const std::string& file = file_of(bytes);
    use(single_node("nccl", place_ranks(read_node(node_format::nccl, file), {}, file)));
}

void read_slurm(std::string_view bytes) { use({"slurm", read_slurm_topology(file_of(bytes), {}, {}), nullptr, {}}); }

void read_hosts(std::string_view bytes) {
    for (const job_host& h : parse_hostfile(bytes, "hosts"))
        if (expand_hosts(fold_hosts(std::vector{h.name})).front() != h.name) std::abort();
}

void read_plan(std::string_view bytes) { parse_plan(bytes, "plan"); }

// In a child process, as everywhere: hwloc itself may crash.
void read_hwloc(std::string_view bytes) {
    const std::string& file = file_of(bytes);
    use(single_node("hwloc", place_ranks(read_node_in_child(node_format::hwloc, file), {}, file)));
}

constexpr fuzz_target targets[] = {
    {"cluster", read_cluster_file, 1000}, {"nccl", read_nccl, 4000}, {"slurm", read_slurm, 4000},
    {"hosts", read_hosts, 4000},          {"plan", read_plan, 500},  {"hwloc", read_hwloc, 60},
};

}  // namespace

std::span<const fuzz_target> fuzz_targets() { return targets; }

}  // namespace terrace
