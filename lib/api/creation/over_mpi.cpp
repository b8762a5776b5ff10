#include "api/creation/over_mpi.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "api/core.hpp"
#include "api/creation/connect.hpp"
#include "transport/known_mpis.hpp"
#include "transport/mpi/mpi_module.hpp"

namespace terrace::detail {

namespace {

// Handles differ between MPIs, so no function that takes one may be called before this check.
void expect_one_mpi(const mpi_world& world, std::string_view running) {
    const std::string_view own = mpi_called(world.library).version;
    if (std::ranges::none_of(known_mpis, [&](const known_mpi& other) {
            return !own.empty() && !other.version.empty() && other.version != own &&
                   running.find(other.version) != running.npos;
        }))
        return;
    throw usage_error(
        fmt::format("mpi::create: the program was compiled with the mpi.h of {}, but runs with {}; compile "
                    "and link it with one mpicxx",
                    mpi_called(world.library).name, running));
}

// Loads the module on all ranks. If one rank cannot, all throw, so no rank waits for another. Collective.
const mpi_module& load_on_all(const mpi_world& world, const options& o) {
    const loaded_module m = load_module(module_for_mpi(world.library), o.mpi_module, sizeof(mpi_module));
    const auto* const module = reinterpret_cast<const mpi_module*>(m.table);
    std::string trouble = m.trouble;
    if (module != nullptr && module->function != world.function)
        trouble = fmt::format("{} is linked to another {} than the program; build Terrace with the program's", m.path,
                              mpi_called(world.library).name);
    const bool all = world.on_all(world.comm, trouble.empty());
    if (!trouble.empty()) throw transport_error("mpi", "dlopen", module == nullptr ? 1 : 2, trouble);
    if (!all)
        throw transport_error("mpi", "dlopen", 1,
                              fmt::format("another rank cannot load the module for {}; its error says why",
                                          mpi_called(world.library).name));
    return *module;
}

}  // namespace

// Open MPI's text continues after a comma. MPICH's has further lines, and a tab after "Version:".
std::string name_in(std::string version) {
    version.resize(std::min(version.find_first_of(",\n"), version.size()));
    std::replace(version.begin(), version.end(), '\t', ' ');
    return version;
}

std::string lone_processes(int launched, int processes, std::string_view library, std::string_view running) {
    const known_mpi& mpi = mpi_called(library);
    return fmt::format(
        "the launcher started {} processes, but {} finds {}: each runs alone. Start them with the program's own MPI: "
        "{}, or under Slurm srun --mpi={}",
        launched, running, processes, mpi.launchers[0], mpi.slurm);
}

connection over_mpi(const mpi_world& world, const options& o) {
    const std::string running = name_in(world.version());
    expect_one_mpi(world, running);
    const int processes = world.processes();
    if (processes == 0) throw usage_error("mpi::create: MPI does not run; call it between MPI_Init and MPI_Finalize");
    if (o.log && o.launched_processes > processes)
        o.log(log_level::warn, lone_processes(o.launched_processes, processes, world.library, running));
    constexpr int failures = 8;  // with an MPI communicator in reserve for each, since MPI creates one without timeout
    mpi_ranks all = load_on_all(world, o).join(world.comm, o.outlives_deaths ? failures : 0);
    return {.net = std::move(all.net),
            .memory = memory_of_processes(o),
            .ranks = team(std::move(all.boot), all.rank, all.size)};
}

communicator create_over_mpi(const mpi_world& world, const plan* p, const options& o) {
    return make_communicator(connect(over_mpi(world, o), p, o), o);
}

std::string error_lines(std::string_view program, std::vector<std::pair<int, std::string>> said, int ranks) {
    std::sort(said.begin(), said.end());
    std::vector<std::pair<std::string, std::vector<int>>> groups;
    for (const auto& [rank, what] : said) {
        auto group = std::ranges::find(groups, what, &decltype(groups)::value_type::first);
        if (group == groups.end()) group = groups.insert(group, {what, {}});
        group->second.push_back(rank);
    }
    std::string lines;
    for (const auto& [what, who] : groups)
        lines += fmt::format("{}: {}{}\n", program, ranks > 1 ? ranks_named(who) + ": " : "", what);
    return lines;
}

}  // namespace terrace::detail
