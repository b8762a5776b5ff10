#include "api/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/edit_distance.hpp"
#include "base/sized_modes.hpp"
#include "base/units.hpp"

namespace terrace::detail {

namespace {

constexpr std::string_view prefix = "TERRACE_";

// Returns nothing for an empty variable, so that a script can switch one off.
std::string_view value_of(std::string_view entry, std::string_view name) {
    const bool is_it = entry.starts_with(name) && entry.substr(name.size()).starts_with('=');
    return is_it ? entry.substr(name.size() + 1) : std::string_view{};
}

void write_line(std::string_view level, std::string_view line) {
    const std::string text = fmt::format("terrace: {}: {}\n", level, line);
    std::fwrite(text.data(), 1, text.size(), stderr);  // in one write: ranks may share the terminal
}

constexpr std::array<std::string_view, 3> level_names{"warn", "info", "debug"};
constexpr std::array<std::string_view, 3> check_names{"off", "first", "every"};
constexpr std::array<std::string_view, 2> placement_names{"by-node", "anywhere"};

template <std::size_t N>
std::optional<int> index_in(const std::array<std::string_view, N>& names, std::string_view text) {
    const auto found = std::find(names.begin(), names.end(), text);
    if (found == names.end()) return {};
    return static_cast<int>(found - names.begin());
}

bool set_log(options& o, std::string_view value) {
    o.log = nullptr;
    if (value == "off") return true;
    const std::optional<int> most = index_in(level_names, value);
    if (!most) return false;
    o.log = [most](log_level level, std::string_view line) {
        const int number = static_cast<int>(level);
        if (number <= *most) write_line(level_names[static_cast<std::size_t>(number)], line);
    };
    return true;
}

// Sets a member that takes any text.
template <auto Member>
bool set_text(options& o, std::string_view value) {
    o.*Member = value;
    return true;
}

bool set_seconds(std::chrono::duration<double>& time, std::string_view value) {
    double seconds = 0;
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), seconds);
    if (problem != std::errc{} || end != value.data() + value.size() || !(seconds >= 0) || seconds > 1e9) return false;
    time = std::chrono::duration<double>(seconds);
    return true;
}

bool set_timeout(options& o, std::string_view value) { return set_seconds(o.timeout, value); }
bool set_failure_timeout(options& o, std::string_view value) { return set_seconds(o.failure_timeout, value); }

bool set_bootstrap(options& o, std::string_view value) {
    o.bootstrap = value;
    return value == "pmix" || (value.starts_with("file:") && value.size() > 5);
}

bool set_number(int& number, std::string_view value, int least) {
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
    return problem == std::errc{} && end == value.data() + value.size() && number >= least;
}

bool set_ports(options& o, std::string_view value) {
    const std::size_t dash = std::min(value.find('-'), value.size());
    const std::string_view last = dash < value.size() ? value.substr(dash + 1) : value;
    return set_number(o.ports.first, value.substr(0, dash), 1) && set_number(o.ports.last, last, o.ports.first) &&
           o.ports.last <= 65535;
}

bool set_memory(options& o, std::string_view value) {
    const std::optional<std::int64_t> bytes = parse_bytes(value);
    if (bytes) o.memory = static_cast<std::size_t>(*bytes);
    return bytes.has_value();
}

bool set_rank(options& o, std::string_view value) { return set_number(o.rank, value, 0); }
bool set_reproducible(options& o, std::string_view value) {
    o.reproducible = value == "on";
    return value == "on" || value == "off";
}
bool set_adapt(options& o, std::string_view value) {
    o.adapt = value == "on";
    return value == "on" || value == "off";
}
bool set_wire(options& o, std::string_view value) {
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), o.wire_error);
    const bool is_limit = problem == std::errc{} && end == value.data() + value.size() && o.wire_error > 0;
    if (!is_limit) o.wire_error = 0;
    o.rounds_on_wire = is_limit || value == "on";
    return is_limit || value == "on" || value == "off";
}
bool set_size(options& o, std::string_view value) { return set_number(o.size, value, 1); }

bool set_check(options& o, std::string_view value) {
    const std::optional<int> level = index_in(check_names, value);
    if (level) o.check = static_cast<options::checking>(*level);
    return level.has_value();
}

bool set_placement(options& o, std::string_view value) {
    const std::optional<int> where = index_in(placement_names, value);
    if (where) o.place = static_cast<options::placement>(*where);
    return where.has_value();
}

// Variables of the drop-in, which reads them itself: pmpi/settings.cpp.
bool leave_to_the_drop_in(options&, std::string_view) { return true; }
bool is_drop_in_mode(options&, std::string_view value) { return parse_modes(value).has_value(); }

constexpr std::string_view drop_in_modes = "auto, on or off, each for some sizes: off:-64K,auto";
constexpr variable drop_in_mode_of(std::string_view name) {
    return {name, "", drop_in_modes, "the same for this call", is_drop_in_mode};
}

constexpr std::array variables{
    variable{"TERRACE_ADAPT", "off", "off or on", "whether the plan follows links that become slow", set_adapt},
    variable{"TERRACE_BOOTSTRAP", "", "pmix or file:DIRECTORY",
             "where ranks find one another without MPI; not set: pmix", set_bootstrap},
    variable{"TERRACE_CHECK", "first", "off, first or every",
             "when the calls of all ranks are compared: never, at the first of each shape, always", set_check},
    variable{"TERRACE_DUMP", "", "a file name, completed by .RANK.json",
             "where a rank writes what it did last, when a call times out and on SIGUSR1",
             set_text<&options::dump_file>},
    variable{"TERRACE_FAILURE_TIMEOUT", "10", "seconds from 0 to 1e9; 0: nobody looks",
             "how long a rank that waits may take to find that another has failed", set_failure_timeout},
    variable{"TERRACE_GPU_MODULE", "", "a file name", "the module for device buffers, where it is not found by itself",
             set_text<&options::gpu_module>},
    variable{"TERRACE_LOG", "warn", "off, warn, info or debug", "what is written to standard error", set_log},
    variable{"TERRACE_MEMORY", "128 MiB", "bytes, as 64 MiB",
             "the most memory that a communicator keeps for calls to come: programs and scratch", set_memory},
    variable{"TERRACE_METRICS", "", "a file name, as NAME.prom",
             "where the ranks of a node keep metrics for Prometheus' node_exporter", set_text<&options::metrics_file>},
    variable{"TERRACE_MPI_MODULE", "", "a file name", "the module for MPI, where it is not found by itself",
             set_text<&options::mpi_module>},
    variable{"TERRACE_PLACEMENT", "by-node", "by-node or anywhere",
             "where ranks must run: on the plan's nodes, or anywhere, to try a plan on one machine", set_placement},
    variable{"TERRACE_PLAN", "", "a plan file",
             "the plan of communicators that are created without one; not set: they make one",
             set_text<&options::plan_file>},
    variable{"TERRACE_PLAN_CACHE", "", "a directory",
             "where plans that jobs make are kept for the next job on such a machine", set_text<&options::plan_cache>},
    variable{"TERRACE_PMPI", "auto", drop_in_modes,
             "under the drop-in for MPI, who runs collectives: whoever is faster, Terrace, or MPI", is_drop_in_mode},
    drop_in_mode_of("TERRACE_PMPI_ALLGATHER"),
    drop_in_mode_of("TERRACE_PMPI_ALLGATHERV"),
    drop_in_mode_of("TERRACE_PMPI_ALLREDUCE"),
    drop_in_mode_of("TERRACE_PMPI_ALLTOALL"),
    drop_in_mode_of("TERRACE_PMPI_ALLTOALLV"),
    drop_in_mode_of("TERRACE_PMPI_BARRIER"),
    drop_in_mode_of("TERRACE_PMPI_BCAST"),
    drop_in_mode_of("TERRACE_PMPI_GATHER"),
    drop_in_mode_of("TERRACE_PMPI_REDUCE"),
    drop_in_mode_of("TERRACE_PMPI_REDUCE_SCATTER"),
    drop_in_mode_of("TERRACE_PMPI_REDUCE_SCATTER_BLOCK"),
    variable{"TERRACE_PMPI_REPORT", "", "a file name",
             "where the drop-in writes who ran what, and how long it took: when MPI ends, and on SIGUSR2",
             leave_to_the_drop_in},
    drop_in_mode_of("TERRACE_PMPI_SCATTER"),
    variable{"TERRACE_PORTS", "", "FIRST-LAST, from 1 to 65535",
             "the ports at which ranks listen, of lifelines and of UCX; not set: the kernel chooses", set_ports},
    variable{"TERRACE_PROFILE", "", "a directory", "where rank 0 writes what calls took, for terrace plan --profile",
             set_text<&options::profile_directory>},
    variable{"TERRACE_RANK", "", "a number from 0 on", "this rank, where ranks meet in a directory", set_rank},
    variable{"TERRACE_REPRODUCIBLE", "off", "off or on", "whether results have the same bits whatever the plan",
             set_reproducible},
    variable{"TERRACE_SIZE", "", "a number from 1 on", "how many ranks meet in a directory", set_size},
    variable{"TERRACE_STATISTICS", "", "a directory",
             "where each rank writes what its calls took and whom it waited for, for terrace report",
             set_text<&options::statistics_directory>},
    variable{"TERRACE_TIMEOUT", "600", "seconds from 0 to 1e9; 0 waits for ever",
             "how long each call may wait for other ranks; not set: under the drop-in for ever", set_timeout},
    variable{"TERRACE_TOPOLOGY_ADDR", "", "SWITCH.SWITCH.NODE, and after a blank what each is",
             "where the node is in the network, for plans made at creation; not set: what Slurm says",
             set_text<&options::topology_address>},
    variable{"TERRACE_TRACE", "", "a file name", "where ranks write a Chrome trace of what they did",
             set_text<&options::trace_file>},
    variable{"TERRACE_WIRE", "off", "off, on, or the most error, above 0",
             "whether sums of floats are rounded to the wire types of the plan", set_wire},
};

std::string unknown(std::string_view name) {
    const auto nearest =
        std::min_element(variables.begin(), variables.end(), [&](const variable& a, const variable& b) {
            return edit_distance(name, a.name) < edit_distance(name, b.name);
        });
    const bool near = edit_distance(name, nearest->name) <= 3;
    return fmt::format(
        "{} is unknown to Terrace and has no effect{}", name,
        near ? fmt::format("; did you mean {}?", nearest->name) : "; `terrace info` lists the variables");
}

}  // namespace

std::span<const variable> environment_variables() noexcept { return variables; }

const char* value_in(std::span<const std::string> environment, std::string_view name) noexcept {
    for (const std::string& entry : environment)
        if (const std::string_view value = value_of(entry, name); !value.empty()) return value.data();
    return nullptr;
}

std::string slurm_address_in(std::span<const std::string> environment) {
    const char* address = value_in(environment, "SLURM_TOPOLOGY_ADDR");
    const char* pattern = value_in(environment, "SLURM_TOPOLOGY_ADDR_PATTERN");
    return address == nullptr ? "" : pattern == nullptr ? address : fmt::format("{} {}", address, pattern);
}

options options_from(std::span<const std::string> environment, std::vector<std::string>& warnings) {
    options o;
    for (const variable& v : variables) {
        const char* set = value_in(environment, v.name);
        if (set == nullptr && v.fallback.empty()) continue;
        if (!v.apply(o, set != nullptr ? set : v.fallback))
            throw input_error("environment", 0, 0, fmt::format("{} is \"{}\"; allowed: {}", v.name, set, v.allowed));
    }
    if (o.topology_address.empty()) o.topology_address = slurm_address_in(environment);
    for (const std::string_view name : {"OMPI_MCA_orte_enable_recovery", "OMPI_MCA_mpi_ft_enable"})
        if (const char* set = value_in(environment, name)) o.outlives_deaths |= set == std::string_view("1");
    for (const std::string& entry : environment) {
        const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
        const auto is_it = [&](const variable& v) { return v.name == name; };
        if (name.starts_with(prefix) && std::none_of(variables.begin(), variables.end(), is_it))
            warnings.push_back(unknown(name));
    }
    return o;
}

std::string_view to_string(options::checking level) noexcept { return check_names[static_cast<std::size_t>(level)]; }

plan load_plan(const options& o) {
    if (o.plan_file.empty())
        throw usage_error(
            "no plan: options::plan_file is empty; set TERRACE_PLAN to a plan file and pass "
            "options::from_environment(), or pass a plan (`terrace plan` makes one)");
    return plan::load(o.plan_file);
}

// Launchers may run inside one another. Open MPI and Slurm: MPI's own knows better how many ranks there are. Open MPI
// and MPICH: a program of Open MPI that MPICH has started says of itself that it is rank 0 of 1.
launch launch_of(std::span<const std::string> environment) noexcept {
    const auto number = [&](std::string_view name) {
        const char* text = value_in(environment, name);
        int n = 0;
        if (text != nullptr) std::from_chars(text, text + std::strlen(text), n);
        return n;
    };
    const launch open{number("OMPI_COMM_WORLD_SIZE"), number("OMPI_COMM_WORLD_RANK")};
    const launch hydra{number("PMI_SIZE"), number("PMI_RANK")};
    const launch& by_mpi = open.processes >= hydra.processes ? open : hydra;
    return by_mpi.processes > 0 ? by_mpi : launch{number("SLURM_STEP_NUM_TASKS"), number("SLURM_PROCID")};
}

bool is_first_rank(std::span<const std::string> environment) noexcept {
    if (const char* rank = value_in(environment, "TERRACE_RANK")) return std::string_view(rank) == "0";
    if (const launch by = launch_of(environment); by.processes > 0) return by.rank == 0;
    for (const std::string_view name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"})
        if (const char* rank = value_in(environment, name)) return std::string_view(rank) == "0";
    return true;
}

std::string nccl_host_in(std::span<const std::string> environment) {
    const char* host = value_in(environment, "NCCL_HOSTID");
    return host != nullptr ? host : "";
}

std::vector<std::string> process_environment() {
    std::vector<std::string> entries;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) entries.emplace_back(*entry);
    return entries;
}

}  // namespace terrace::detail

namespace terrace {

using namespace detail;

options options::from_environment() {
    std::vector<std::string> warnings;
    const std::vector<std::string> environment = process_environment();
    options o = options_from(environment, warnings);
    // All ranks of a job share their variables: one of them says what is wrong.
    if (!is_first_rank(environment)) return o;
    o.launched_processes = launch_of(environment).processes;
    for (const std::string& warning : warnings)
        if (o.log) o.log(log_level::warn, warning);
    return o;
}

}  // namespace terrace
