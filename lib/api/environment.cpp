#include "api/environment.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/find_name.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"

namespace terrace::detail {

namespace {

constexpr std::string_view prefix = "TERRACE_";
constexpr std::string_view of_the_drop_in = "TERRACE_PMPI";  // the drop-in reads these: pmpi/variables.hpp

void write_line(std::string_view level, std::string_view line) {
    const std::string text = fmt::format("terrace: {}: {}\n", level, line);
    std::fwrite(text.data(), 1, text.size(), stderr);  // one write, since ranks may share the terminal
}

constexpr std::array<std::string_view, 3> level_names{"warn", "info", "debug"};
constexpr std::array<std::string_view, 3> adapt_names{"off", "name", "on"};
constexpr std::array<std::string_view, 3> check_names{"off", "first", "every"};
constexpr std::array<std::string_view, 2> placement_names{"by-node", "anywhere"};

// Reads an integer or floating-point number from `least` to `most`. Returns false if the text is none.
template <class Number>
bool read_number(std::string_view value, Number& to, Number least, Number most = std::numeric_limits<Number>::max()) {
    const std::optional<Number> number = as_number<Number>(value);
    if (!number || !(*number >= least && *number <= most)) return false;
    to = *number;
    return true;
}

template <class Enum, std::size_t N>
bool read_name(std::string_view value, Enum& to, const std::array<std::string_view, N>& names) {
    const std::optional<Enum> found = find_name<Enum>(names, value);
    if (found) to = *found;
    return found.has_value();
}

bool read(std::string_view value, std::string& to) { return to = value, true; }
bool read(std::string_view value, std::filesystem::path& to) { return to = value, true; }
bool read(std::string_view value, options::adapting& to) { return read_name(value, to, adapt_names); }
bool read(std::string_view value, options::checking& to) { return read_name(value, to, check_names); }
bool read(std::string_view value, options::placement& to) { return read_name(value, to, placement_names); }
bool read(std::string_view value, bool& to) {
    to = value == "on";
    return to || value == "off";
}
bool read(std::string_view value, std::chrono::duration<double>& to) {
    double seconds = 0;
    const bool is_right = read_number(value, seconds, 0.0, 1e9);
    if (is_right) to = std::chrono::duration<double>(seconds);
    return is_right;
}
bool read(std::string_view value, std::size_t& to) {
    const std::optional<std::int64_t> bytes = parse_bytes(value);
    if (bytes) to = static_cast<std::size_t>(*bytes);
    return bytes.has_value();
}
bool read(std::string_view value, port_range& to) {
    const std::size_t dash = std::min(value.find('-'), value.size());
    const std::string_view last = dash < value.size() ? value.substr(dash + 1) : value;
    return read_number(value.substr(0, dash), to.first, 1) && read_number(last, to.last, to.first, 65535);
}

template <auto Member>
bool set(options& o, std::string_view value) {
    return read(value, o.*Member);
}

template <auto Member, int least>
bool set_from(options& o, std::string_view value) {
    return read_number(value, o.*Member, least);
}

bool set_log(options& o, std::string_view value) {
    o.log = nullptr;
    log_level most{};
    if (value == "off") return true;
    if (!read_name(value, most, level_names)) return false;
    o.log = [most](log_level level, std::string_view line) {
        if (level <= most) write_line(level_names[static_cast<std::size_t>(level)], line);
    };
    return true;
}

bool set_bootstrap(options& o, std::string_view value) {
    o.bootstrap = value;
    return value == "pmix" || (value.starts_with("file:") && value.size() > 5);
}

bool set_wire(options& o, std::string_view value) {
    o.wire_error = 0;
    const bool is_limit = read_number(value, o.wire_error, std::numeric_limits<double>::min());
    return (o.rounds_on_wire = is_limit) || read(value, o.rounds_on_wire);
}

constexpr std::array variables{
    variable{"TERRACE_ADAPT", "name", "off, name or on",
             "what becomes of links that carry less than before: nothing, the log names them, or the plan follows too",
             set<&options::adapt>},
    variable{"TERRACE_BOOTSTRAP", "", "pmix or file:DIRECTORY",
             "where ranks find one another without MPI; not set: pmix", set_bootstrap},
    variable{"TERRACE_CHECK", "first", "off, first or every",
             "when the calls of all ranks are compared: never, at the first of each shape, always",
             set<&options::check>},
    variable{"TERRACE_DUMP", "", "a file name, completed by .RANK.json",
             "where a rank writes what it did last, when a call times out and on SIGUSR1", set<&options::dump_file>},
    variable{"TERRACE_FAILURE_TIMEOUT", "10", "seconds from 0 to 1e9; 0: nobody looks",
             "how long a rank that waits may take to find that another has failed", set<&options::failure_timeout>},
    variable{"TERRACE_GPU_MODULE", "", "a file name", "the module for device buffers, where it is not found by itself",
             set<&options::gpu_module>},
    variable{"TERRACE_LOG", "warn", "off, warn, info or debug", "what is written to standard error", set_log},
    variable{"TERRACE_MEMORY", "128 MiB", "bytes, as 64 MiB",
             "the most memory that a communicator keeps for calls to come: programs and scratch",
             set<&options::memory>},
    variable{"TERRACE_METRICS", "", "a file name, as NAME.prom",
             "where the ranks of a node keep metrics for Prometheus' node_exporter", set<&options::metrics_file>},
    variable{"TERRACE_MPI_MODULE", "", "a file name", "the module for MPI, where it is not found by itself",
             set<&options::mpi_module>},
    variable{"TERRACE_PLACEMENT", "by-node", "by-node or anywhere",
             "where ranks must run: on the plan's nodes, or anywhere, to try a plan on one machine",
             set<&options::place>},
    variable{"TERRACE_PLAN", "", "a plan file",
             "the plan of communicators that are created without one; not set: they make one",
             set<&options::plan_file>},
    variable{"TERRACE_PLAN_CACHE", "", "a directory",
             "where plans that jobs make are kept for the next job on such a machine", set<&options::plan_cache>},
    variable{"TERRACE_PORTS", "", "FIRST-LAST, from 1 to 65535",
             "the ports at which ranks listen, of lifelines, meetings and UCX; not set: the kernel chooses",
             set<&options::ports>},
    variable{"TERRACE_PROFILE", "", "a directory", "where rank 0 writes what calls took, for terrace plan --profile",
             set<&options::profile_directory>},
    variable{"TERRACE_RANK", "", "a number from 0 on", "this rank, where ranks meet in a directory",
             set_from<&options::rank, 0>},
    variable{"TERRACE_REPRODUCIBLE", "off", "off or on", "whether results have the same bits whatever the plan",
             set<&options::reproducible>},
    variable{"TERRACE_SIZE", "", "a number from 1 on", "how many ranks meet in a directory",
             set_from<&options::size, 1>},
    variable{"TERRACE_STATISTICS", "", "a directory",
             "where each rank writes what its calls took and whom it waited for, for terrace report",
             set<&options::statistics_directory>},
    variable{"TERRACE_TIMEOUT", "600", "seconds from 0 to 1e9; 0 waits for ever",
             "how long each call may wait for other ranks; not set: under the drop-in for ever",
             set<&options::timeout>},
    variable{"TERRACE_TOPOLOGY_ADDR", "", "SWITCH.SWITCH.NODE, and after a blank what each is",
             "where the node is in the network, for plans made at creation; not set: what Slurm says",
             set<&options::topology_address>},
    variable{"TERRACE_TRACE", "", "a file name", "where ranks write a Chrome trace of what they did",
             set<&options::trace_file>},
    variable{"TERRACE_WIRE", "off", "off, on, or the most error, above 0",
             "whether sums of floats are rounded to the wire types of the plan", set_wire},
};

}  // namespace

std::span<const variable> environment_variables() noexcept { return variables; }

std::string slurm_address_in(std::span<const std::string> environment) {
    const std::string_view address = value_in(environment, "SLURM_TOPOLOGY_ADDR");
    const std::string_view pattern = value_in(environment, "SLURM_TOPOLOGY_ADDR_PATTERN");
    return address.empty() || pattern.empty() ? std::string(address) : fmt::format("{} {}", address, pattern);
}

options options_from(std::span<const std::string> environment, std::vector<std::string>& warnings) {
    options o;
    apply_variables(variables, environment, o);
    if (o.topology_address.empty()) o.topology_address = slurm_address_in(environment);
    for (const std::string_view name : {"OMPI_MCA_orte_enable_recovery", "OMPI_MCA_mpi_ft_enable"})
        o.outlives_deaths |= value_in(environment, name) == "1";
    std::ranges::move(unknown_variables(environment, prefix, variables, of_the_drop_in), std::back_inserter(warnings));
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

// Launchers may be nested. If Slurm starts an MPI launcher, MPI's variables have the right number of ranks. If MPICH's
// launcher starts a program of Open MPI, Open MPI's variables give rank 0 of 1, so the larger job is right.
launch launch_of(std::span<const std::string> environment) noexcept {
    const auto number = [&](std::string_view name) {
        return leading_number<int>(value_in(environment, name)).value_or(0);
    };
    const launch open{number("OMPI_COMM_WORLD_SIZE"), number("OMPI_COMM_WORLD_RANK")};
    const launch hydra{number("PMI_SIZE"), number("PMI_RANK")};
    const launch& by_mpi = open.processes >= hydra.processes ? open : hydra;
    return by_mpi.processes > 0 ? by_mpi : launch{number("SLURM_STEP_NUM_TASKS"), number("SLURM_PROCID")};
}

bool is_first_rank(std::span<const std::string> environment) noexcept {
    if (const auto rank = value_in(environment, "TERRACE_RANK"); !rank.empty()) return rank == "0";
    if (const launch by = launch_of(environment); by.processes > 0) return by.rank == 0;
    for (const std::string_view name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"})
        if (const auto rank = value_in(environment, name); !rank.empty()) return rank == "0";
    return true;
}

}  // namespace terrace::detail

namespace terrace {

using namespace detail;

options options::from_environment() {
    std::vector<std::string> warnings;
    const std::vector<std::string> environment = process_environment();
    options o = options_from(environment, warnings);
    // All ranks of a job have the same variables, so only one rank logs the warnings.
    if (!is_first_rank(environment)) return o;
    o.launched_processes = launch_of(environment).processes;
    for (const std::string& warning : warnings)
        if (o.log) o.log(log_level::warn, warning);
    return o;
}

}  // namespace terrace
