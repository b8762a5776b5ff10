#include "api/over_mpi.hpp"

#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "transport/mpi/mpi_module.hpp"

namespace terrace::detail {

namespace {

// On this rank alone.
const mpi_module& load(const mpi_world& world, const options& o) {
    const loaded_module m = load_module(module_for_mpi(world.library), o.mpi_module, sizeof(mpi_module));
    if (m.table == nullptr) throw transport_error("mpi", "dlopen", 1, m.trouble);
    const auto& module = *reinterpret_cast<const mpi_module*>(m.table);
    if (module.function != world.function)
        throw transport_error("mpi", "dlopen", 2,
                              fmt::format("{} is linked to another {} than the program; build Terrace with the "
                                          "program's",
                                          m.path, name_of_mpi(world.library)));
    return module;
}

// No rank may wait for one that has no module.
const mpi_module& load_on_all(const mpi_world& world, const options& o) {
    const mpi_module* module = nullptr;
    try {
        module = &load(world, o);
    } catch (const transport_error&) {
        world.on_all(world.comm, false);
        throw;
    }
    if (!world.on_all(world.comm, true))
        throw transport_error(
            "mpi", "dlopen", 1,
            fmt::format("another rank cannot load the module for {}; its error says why", name_of_mpi(world.library)));
    return *module;
}

}  // namespace

connection over_mpi(const mpi_world& world, const options& o) {
    mpi_ranks all = load_on_all(world, o).join(world.comm);
    return {.net = std::move(all.net),
            .memory = std::make_shared<posix_regions>(),
            .ranks = team(std::move(all.boot), all.rank, all.size)};
}

}  // namespace terrace::detail
