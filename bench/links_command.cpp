// terrace-bench --links and --detect.

#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>
#include <terrace/mpi.hpp>
#include <terrace/version.hpp>

#include "api/creation/auto_plan.hpp"
#include "api/creation/over_mpi.hpp"
#include "base/document.hpp"
#include "bench/device/device_links.hpp"
#include "bench/device/gpu.hpp"
#include "bench/measure/goodput.hpp"
#include "bench/measure/mpi_world.hpp"
#include "bench/modes.hpp"
#include "machine/devices.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "tools/common/import_child.hpp"
#include "tools/common/output_file.hpp"
#include "topology/describe.hpp"
#include "topology/formats/cluster.hpp"

namespace terrace::detail::bench {

namespace {

void expect_ranks(const world& w, const links_settings& s, const hierarchy& machine) {
    const auto fail = [&](const std::string& what) { throw input_error(s.topology_file.string(), 0, 0, what); };
    if (machine.ranks() != w.size())
        fail(fmt::format("{} ranks, but {} run; start one for each place", machine.ranks(), w.size()));
    std::map<int, int> sizes;
    for (const int host : w.hosts()) ++sizes[host];
    std::vector<int> found;
    for (const auto& [host, size] : sizes) found.push_back(size);
    if (s.place == options::placement::by_node && found != machine.node_sizes())
        fail(
            fmt::format("ranks per node are {}, and {} in the job; start ranks node by node, or try it with --anywhere",
                        fmt::join(machine.node_sizes(), " "), fmt::join(found, " ")));
}

// Opens this rank's GPU. The machine must have its ranks on GPUs: else the cost model uses no rates of NCCL and MPI.
std::unique_ptr<gpu> open_gpu(const world& w, const links_settings& s, const hierarchy& machine) {
    if (!s.device) return nullptr;
    if (!on_gpus(machine))
        throw input_error(s.topology_file.string(), 0, 0,
                          fmt::format("ranks on GPUs meet over nvlink or pcie, but the first level is {}; correct its "
                                      "fabric, or leave out --device",
                                      to_string(machine.levels.front().medium)));
    int threads = MPI_THREAD_SINGLE;
    check(MPI_Query_thread(&threads), "MPI_Query_thread");
    if (threads < MPI_THREAD_MULTIPLE)
        throw usage_error("--device cuda: messages over MPI need MPI_THREAD_MULTIPLE, which this MPI has not");
    return std::make_unique<gpu>(w, options::from_environment());
}

template <class Measured>
int report_links(const world& w, const links_settings& s, const topology& before, const std::string& how,
                 const Measured& found) {
    const topology after{before.name, calibrated(before.machine, found)};
    const std::string origin = fmt::format("# Measured by terrace-bench {} --links, {}, {}, hosts: {}{}.\n", version(),
                                           now_text(), w.library(), w.host_count(), how);
    say(w, origin + links_text(before.machine, found, after.machine));
    w.on_first([&] {
        if (!s.output_file.empty()) write_output(s.output_file, origin + write_cluster(after));
    });
    if (!is_printed(s.output_file)) say(w, fmt::format("written: {}\n", s.output_file.string()));
    return success;
}

// The machine of all ranks, with the rank at each place of it.
struct detected {
    hierarchy machine;
    std::vector<int> ranks;
    std::string levels_from;  // on the first rank: source of the levels above nodes; empty for one node
};

// Describes the machine, each node once. Collective. @throws plan_error on all ranks if a node cannot be described
detected detect(const world& w) {
    connection all_ranks = over_mpi(world_of(comm_of(w)), {});
    const job found = describe_job(all_ranks.ranks, options::from_environment());
    std::vector<int> places(static_cast<std::size_t>(w.size()));
    all_ranks.ranks.gather_all(&found.place, places.data(), sizeof(int));
    detected all{{}, std::vector<int>(places.size()), found.levels_from};
    for (std::size_t r = 0; r < places.size(); ++r)
        all.ranks[static_cast<std::size_t>(places[r])] = static_cast<int>(r);
    const std::string text = w.from_first(w.first() ? write_hierarchy(found.machine, 0) : "");
    all.machine = read_hierarchy(document::parse(text, "the job's machine"));
    return all;
}

}  // namespace

int measure_links(const world& w, const links_settings& s) {
    const topology before = w.together([&] {
        if (w.first()) expect_replaceable(s.output_file, {s.topology_file}, s.force);
        topology t = read_cluster(s.topology_file, read_node_in_child);
        expect_ranks(w, s, t.machine);
        return t;
    });
    const auto device = w.together([&] { return open_gpu(w, s, before.machine); });
    const std::vector<int> ranks = ranks_by_place(w, s.place);
    progress shown(w.first(), s.progress);
    if (!device) return report_links(w, s, before, "", measure_machine(w, before.machine, ranks, shown));
    const measured_devices found = measure_devices(w, before.machine, ranks, *device, shown);
    return report_links(w, s, before, fmt::format("; {}; {}", device->description(), found.by), found);
}

int describe_cluster(const world& w, const detect_settings& s) {
    w.on_first([&] { expect_replaceable(s.output_file, {}, s.force); });
    progress shown(w.first(), s.progress);
    shown.now(fmt::format("describing {} {}", w.host_count(), w.host_count() == 1 ? "host" : "hosts"));
    const detected found = detect(w);
    topology t{s.name, found.machine};
    if (t.name.empty()) t.name = t.machine.hosts.empty() ? "detected" : t.machine.hosts.front();
    std::string origin = fmt::format("# Found by terrace-bench {} --detect, {}, {}, hosts: {}.\n", version(),
                                     now_text(), w.library(), w.host_count());
    if (!found.levels_from.empty()) origin += fmt::format("# Levels above nodes: {}.\n", found.levels_from);
    std::string rates = "# Rates under `assumed` are not measured (--measure); correct what you know better.\n";
    if (s.measure) {
        const measured_machine measured = measure_machine(w, found.machine, found.ranks, shown);
        t.machine = calibrated(found.machine, measured);
        rates = links_text(found.machine, measured, t.machine);
        origin += "# Rates are measured.\n";
    }
    shown.clear();
    const std::string file = s.measure ? origin + write_cluster(t) : origin + rates + write_cluster(t);
    w.on_first([&] { write_output(s.output_file, file); });
    if (!is_printed(s.output_file))
        say(w,
            fmt::format("{}{}written: {}\n", describe_text(t), s.measure ? "\n" + rates : "", s.output_file.string()));
    return success;
}

}  // namespace terrace::detail::bench
