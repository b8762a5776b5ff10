// Ranks are threads.

#include <terrace/loopback.hpp>

#include "conformance/world.hpp"

namespace terrace::test {

namespace {

report run_threads(const plan& p, const rank_main& body, const options& o = {}) {
    report seen(static_cast<std::size_t>(p.ranks()));
    loopback::run(p, [&](communicator& comm) { seen[static_cast<std::size_t>(comm.rank())] = body(comm); }, o);
    return seen;
}

}  // namespace

std::vector<world> worlds() {
    return {
        {"loopback", {1, 2, 3, 4, 5, 8, 11, 16}, [](const plan& p, const rank_main& body) { return run_threads(p, body); }},
    };
}

}  // namespace terrace::test
