#include "bench/detect.hpp"

#include "api/auto_plan.hpp"
#include "base/document.hpp"
#include "base/hierarchy_yaml.hpp"
#include "transport/mpi/mpi_transport.hpp"

namespace terrace::bench {

detected detect(const world& w) {
    const auto net = make_mpi_transport(w.comm(), identity_of("terrace-bench --detect"));
    const job found = describe_job(*net);
    std::vector<int> places(static_cast<std::size_t>(w.size()));
    net->gather_all(&found.place, places.data(), sizeof(int));
    detected all{{}, std::vector<int>(places.size())};
    for (std::size_t r = 0; r < places.size(); ++r)
        all.ranks[static_cast<std::size_t>(places[r])] = static_cast<int>(r);
    const std::string text = w.from_first(w.first() ? write_hierarchy(found.machine, 0) : "");
    all.machine = read_hierarchy(document::parse(text, "the job's machine"));
    return all;
}

}  // namespace terrace::bench
