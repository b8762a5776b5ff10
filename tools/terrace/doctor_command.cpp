#include "tools/terrace/commands.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "api/environment.hpp"
#include "base/units.hpp"
#include "plan/plan_yaml.hpp"
#include "schedule/slice.hpp"
#include "tools/build_config.hpp"
#include "tools/common/output.hpp"
#include "tools/common/output_file.hpp"
#include "tools/terrace/bundle.hpp"
#include "tools/terrace/dumps.hpp"
#include "tools/terrace/running_ranks.hpp"
#include "tools/terrace/variables.hpp"
#include "topology/addresses.hpp"
#include "topology/formats/placed_nodes.hpp"
#include "transport/interfaces.hpp"
#include "transport/module.hpp"
#include "transport/ports.hpp"

namespace terrace::detail {

namespace {

namespace fs = std::filesystem;

struct finding {
    enum class kind { ok, note, problem };
    kind how = kind::ok;
    std::string what;  // subject of the check
    std::string found;
    std::string fix = {};
};

finding good(std::string what, std::string found) { return {finding::kind::ok, std::move(what), std::move(found)}; }
finding noted(std::string what, std::string found, std::string fix) {
    return {finding::kind::note, std::move(what), std::move(found), std::move(fix)};
}
finding bad(std::string what, std::string found, std::string fix) {
    return {finding::kind::problem, std::move(what), std::move(found), std::move(fix)};
}

int cores() {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Returns the first line that a program prints; empty if the program cannot run.
std::string first_line_of(const std::string& command) {
    const std::unique_ptr<FILE, int (*)(FILE*)> out(popen(command.c_str(), "r"), pclose);
    std::array<char, 256> line{};
    if (!out || std::fgets(line.data(), line.size(), out.get()) == nullptr) return "";
    std::string text = line.data();
    text.erase(text.find_last_not_of(" \n") + 1);
    return text;
}

// ---- checks ---------------------------------------------------------------------------------------------------------

// Without a plan: two calls in flight, each of some lanes with chunks of 256 KiB for each rank
// (docs/explanation/shared-memory.md). With a plan: the use of its largest node (docs/reference/memory.md).
finding shared_memory(const fs::path& plan_file) {
    std::int64_t each_rank = std::int64_t{std::max(16, cores())} << 20, ranks = cores();
    if (!plan_file.empty()) {
        const plan_data plan = read_plan(plan_file);
        each_rank = lane_slots(plan) * slot_bytes(plan);
        ranks = std::ranges::max(plan.machine.node_sizes());
    }
    const std::int64_t wanted = each_rank * ranks;
    const std::string remedy = fmt::format("size={}g", (wanted + (1 << 30) - 1) >> 30);
    struct statvfs there {};
    if (statvfs("/dev/shm", &there) != 0)
        return bad(
            "shared memory", "/dev/shm is not there",
            fmt::format("mount it: mount -t tmpfs -o {} tmpfs /dev/shm; without it ranks of a node send messages",
                        remedy));
    const auto free = static_cast<std::int64_t>(there.f_bavail) * static_cast<std::int64_t>(there.f_frsize);
    const std::string text = fmt::format("{} MiB free in /dev/shm", free >> 20);
    if (free < wanted)
        return bad("shared memory", text,
                   fmt::format("{} for each of {} ranks are wanted; in a container start it with --shm-{}, else mount "
                               "-o remount,{} /dev/shm, and remove what dead programs left there",
                               format_bytes(each_rank), ranks, remedy, remedy));
    return good("shared memory", text);
}

finding open_files() {
    constexpr rlim_t wanted = 1024;
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    const std::string text = fmt::format("{} at a time", limit.rlim_cur);
    if (limit.rlim_cur >= wanted) return good("open files", text);
    return bad("open files", text, "every peer on another node takes a socket: ulimit -n 4096 where ranks start");
}

finding locked_memory() {
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    std::error_code none;
    const bool infiniband = fs::exists("/sys/class/infiniband", none) && !fs::is_empty("/sys/class/infiniband", none);
    if (!infiniband) return good("locked memory", "no InfiniBand device needs any");
    if (limit.rlim_cur == RLIM_INFINITY) return good("locked memory", "unlimited");
    return bad("locked memory", fmt::format("{} KiB", limit.rlim_cur / 1024),
               "InfiniBand registers buffers: `* - memlock unlimited` in /etc/security/limits.conf, and in the batch "
               "system's unit LimitMEMLOCK=infinity");
}

// Returns the options in the environment. variables() reports wrong variables.
options options_told() {
    std::vector<std::string> ignored;
    try {
        return options_from(process_environment(), ignored);
    } catch (const error&) {
        return {};
    }
}

// Returns the interfaces as ranks see them, without facts that only other hosts know.
std::vector<network_interface> interfaces() {
    const std::vector<std::string> environment = process_environment();
    return judged(own_interfaces(), {.chosen = value_in(environment, "UCX_NET_DEVICES")});
}

finding networks() {
    const std::vector<network_interface> all = interfaces(), in_use = used(all);
    const std::string text = description(all);
    if (in_use.empty())
        return noted(
            "network", text,
            "ranks of this node alone can run; bring an interface up for more, or name one in UCX_NET_DEVICES");
    const auto may_mislead = [](const network_interface& i) {
        return i.up && i.address != 0 && i.is != network_interface::kind::loopback;
    };
    if (std::count_if(all.begin(), all.end(), may_mislead) < 2) return good("network", text);
    std::vector<std::string> names;
    for (const network_interface& i : in_use) names.push_back(i.name);
    return noted("network", text,
                 fmt::format("a job also leaves out an interface with the address of another host, and one that does "
                             "not lead to all hosts; UCX_NET_DEVICES=NAME chooses. MPI over TCP may use all of them: "
                             "mpirun --mca btl_tcp_if_include {}",
                             fmt::join(names, ",")));
}

finding listeners() {
    const port_range ports = options_told().ports;
    std::string text = "lifelines, while a communicator is created, and UCX, until it is destroyed";
    bool any_free = true;
    for (const network_interface& i : used(interfaces())) {
        text += fmt::format("; {} ({})", i.name, address_text(i.address));
        if (ports.first == 0 || i.address == 0) continue;
        const int all = ports.last - ports.first + 1, free = free_ports(i.address, ports, all);
        text += fmt::format(", {} of {} ports free", free, all);
        any_free = any_free && free > 0;
    }
    text += ports.first == 0 ? "; ports that the kernel chooses (TERRACE_PORTS is not set)"
                             : fmt::format("; TERRACE_PORTS={}", text_of(ports));
    if (any_free) return good("listeners", text);
    return bad("listeners", text, "end what listens there, or set TERRACE_PORTS to other ports");
}

finding host_address() {
    utsname self{};
    uname(&self);
    const std::string name = self.nodename;
    addrinfo hints{};
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0)
        return bad("host name", name + " has no address",
                   fmt::format("add a line with this machine's address and {} to /etc/hosts", name));
    std::string address;
    bool reachable = false;
    for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
        const in_addr ip = reinterpret_cast<const sockaddr_in*>(a->ai_addr)->sin_addr;
        address = inet_ntoa(ip);
        reachable |= ntohl(ip.s_addr) >> 24 != 127;
    }
    freeaddrinfo(found);
    const std::string text = fmt::format("{} is {}", name, address);
    if (reachable || used(interfaces()).empty()) return good("host name", text);
    return bad("host name", text,
               fmt::format("other nodes would be told to connect to themselves; give {} this machine's address in "
                           "/etc/hosts instead",
                           name));
}

constexpr bool built_with_mpi = !std::string_view(TERRACE_MPI_NAME).empty(),
               built_with_open_mpi = std::string_view(TERRACE_MPI_NAME) == "Open MPI";

finding launcher() {
    if (!built_with_mpi) return good("MPI", "built without MPI: ranks meet by PMIx, in a directory or in a store");
    const std::string built = TERRACE_MPI_NAME " " TERRACE_MPI_VERSION, line = first_line_of("mpirun --version 2>&1");
    const bool is_open_mpi = line.find("Open MPI") != line.npos || line.find("OpenRTE") != line.npos;
    const bool is_hydra = line.find("HYDRA") != line.npos || line.find("MPICH") != line.npos;
    if (!is_open_mpi && !is_hydra)
        return bad("MPI", fmt::format("no mpirun in PATH; built against {}", built),
                   "install it (openmpi-bin or mpich), or put its directory into PATH");
    if (is_open_mpi != built_with_open_mpi)
        return bad("MPI", fmt::format("mpirun is of another MPI ({}); built against {}", line, built),
                   "every rank would be alone: call that MPI's own, mpirun.openmpi or mpirun.mpich, or build with "
                   "-Dmpi=");
    return good("MPI", fmt::format("{}; built against {}", line, built));
}

// Checks the launcher of this process, which would also start ranks.
finding started_by() {
    const std::vector<std::string> environment = process_environment();
    const int ranks = launch_of(environment).processes;
    if (ranks == 0) return good("launcher", "not started by mpirun or srun");
    const bool is_open_mpi = !value_in(environment, "OMPI_COMM_WORLD_SIZE").empty();
    const bool is_hydra = !is_open_mpi && !value_in(environment, "PMI_SIZE").empty();
    if (!is_open_mpi && !is_hydra) return good("launcher", fmt::format("srun, {} tasks", ranks));
    const std::string by =
        fmt::format("mpirun of {}, {} rank{}", is_open_mpi ? "Open MPI" : "MPICH", ranks, ranks == 1 ? "" : "s");
    if (!built_with_mpi || is_open_mpi == built_with_open_mpi) return good("launcher", by);
    return bad("launcher", by,
               "terrace-bench and programs built with " TERRACE_MPI_NAME
               " would each be alone: start those by " TERRACE_MPI_NAME "'s own mpirun");
}

// Checks for modules that only programs without MPI need.
finding without_mpi() {
    std::vector<std::string> there, missing;
    for (const module_kind& kind : {module_for_ucx(), module_for_pmix()})
        (fs::exists(find_module(kind)) ? there : missing).push_back(kind.file);
    const std::string text = fmt::format("{}", fmt::join(there, " and "));
    if (missing.empty()) return good("ranks without MPI", text);
    return noted("ranks without MPI",
                 there.empty() ? "no terrace-ucx.so" : fmt::format("{}, no {}", text, missing.front()),
                 "apt-get install libucx-dev libpmix-dev, and build again");
}

finding user() {
    if (geteuid() != 0) return good("user", "not root");
    return noted("user", "root", "Open MPI starts nothing as root unless told to: mpirun --allow-run-as-root");
}

finding usable_cores() {
    return noted("processors", fmt::format("{} for this process", cores()),
                 "more ranks than that on this node take mpirun --oversubscribe --bind-to none --mca "
                 "mpi_yield_when_idle 1");
}

finding gpu_driver() {
    std::error_code none;
    const fs::path version = "/proc/driver/nvidia/version";
    const bool has_device = fs::exists("/dev/nvidia0", none);
    if (!fs::exists(version, none))
        return has_device ? bad("GPU driver", "/dev/nvidia0 is there, the driver is not loaded", "modprobe nvidia")
                          : good("GPU driver", "no NVIDIA GPU");
    std::ifstream in(version);
    std::string line;
    std::getline(in, line);
    if (has_device) return good("GPU driver", line);
    return bad("GPU driver", line,
               "the driver is there, but no /dev/nvidia0: start the container with --gpus all, or run nvidia-smi once "
               "as root");
}

finding shared_gpus() {
    constexpr const char* what = "shared GPUs";
    const std::string host(value_in(process_environment(), "NCCL_HOSTID"));
    if (host.empty()) return good(what, "ranks of a node that have the same GPU are refused");
    return noted(
        what,
        fmt::format("NCCL_HOSTID={}: ranks with different ones may have the same GPU. They are different hosts "
                    "to NCCL, so that messages leave the GPU and go over sockets or adapters, and their "
                    "kernels take turns",
                    host),
        "for tests: results are right, times say nothing. Unset it where there is a GPU for each rank");
}

// Checks which levels above nodes the plans have that are made at creation of a communicator.
finding levels_above_nodes() {
    const options given = options_told();
    constexpr const char* what = "levels above nodes";
    if (!given.plan_file.empty()) return good(what, fmt::format("those of the plan {}", given.plan_file.string()));
    if (given.topology_address.empty())
        return noted(what, "plans made at creation assume one, \"cluster\"",
                     "set TERRACE_TOPOLOGY_ADDR on each node, as Slurm does SLURM_TOPOLOGY_ADDR, or give a plan");
    try {
        const node_address own = parse_address(given.topology_address);
        return good(what,
                    fmt::format("{}, by the address \"{}\"; rates are assumed",
                                own.levels.empty() ? assumed_level : fmt::format("{}", fmt::join(own.levels, ", ")),
                                given.topology_address));
    } catch (const error& e) {
        return noted(what, e.what(), "one is assumed; correct TERRACE_TOPOLOGY_ADDR, or give a plan");
    }
}

std::vector<finding> variables() {
    std::vector<finding> found;
    for (const std::string& problem : problems_of_variables(process_environment()))
        found.push_back(
            bad("variables", problem, "unset it, or see docs/reference/environment.md; terrace info lists all"));
    if (found.empty()) found.push_back(good("variables", "TERRACE_* are as they should be"));
    return found;
}

// Checks running jobs. Nothing else shows whether messages use the plan's NICs: they arrive in any case.
finding nics_of_ranks(const fs::path& plan_file) {
    const hierarchy machine = read_plan(plan_file).machine;
    if (machine.nics.empty()) return good("NICs of ranks", "the plan has none");
    const std::vector<running_rank> ranks = running_ranks(machine.ranks());
    if (ranks.empty())
        return noted("NICs of ranks",
                     fmt::format("no job of {} ranks by mpirun, srun or torchrun runs here", machine.ranks()),
                     "look again while the job runs");
    if (const auto conflict = nic_conflict(machine, ranks))
        return bad("NICs of ranks", *conflict,
                   "start ranks with the script that `terrace export PLAN --to nics` writes, before the program");
    return good("NICs of ranks", fmt::format("{}, as the plan has it", ranks.size()));
}

std::vector<finding> all_findings(const fs::path& plan_file) {
    std::vector<finding> all{shared_memory(plan_file), open_files(), locked_memory(), networks(),          listeners(),
                             host_address(),           launcher(),   started_by(),    without_mpi(),       user(),
                             usable_cores(),           gpu_driver(), shared_gpus(),   levels_above_nodes()};
    for (finding& f : variables()) all.push_back(std::move(f));
    if (!plan_file.empty()) all.push_back(nics_of_ranks(plan_file));
    return all;
}

std::string text_of(const std::vector<finding>& all) {
    std::string text;
    for (const finding& f : all) {
        constexpr std::array marks{"ok  ", "note", "FIX "};
        text += fmt::format("{} {}: {}\n", marks[static_cast<std::size_t>(f.how)], f.what, f.found);
        if (!f.fix.empty()) text += fmt::format("       {}\n", f.fix);
    }
    return text;
}

}  // namespace

int doctor_command::run() const {
    if (bundle.empty() && !dumps.empty()) {
        say("{}", verdict_of(read_dumps(dumps)));
        return 0;
    }
    expect_replaceable(bundle, {plan_file}, force);
    if (!bundle.empty()) {
        const std::vector<bundle_file> files =
            bundle_files([&] { return text_of(all_findings(plan_file)); }, plan_file, dumps);
        write_output(bundle, tar_archive(files));
        for (const bundle_file& f : files) say("{:>9} {}\n", f.text.size(), f.name);
        say("{}: read it before you send it; it has names and addresses of hosts\n", bundle.string());
        return 0;
    }
    const std::vector<finding> all = all_findings(plan_file);
    say_text(text_of(all));
    return std::ranges::any_of(all, [](const finding& f) { return f.how == finding::kind::problem; }) ? 1 : 0;
}

}  // namespace terrace::detail
