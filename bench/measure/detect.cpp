#include "bench/measure/detect.hpp"

#include <terrace/mpi.hpp>

#include "api/creation/auto_plan.hpp"
#include "api/creation/over_mpi.hpp"
#include "base/document.hpp"
#include "bench/measure/mpi_world.hpp"
#include "machine/hierarchy_yaml.hpp"

namespace terrace::detail::bench {

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

}  // namespace terrace::detail::bench
