// Ranks are threads.

#include <terrace/loopback.hpp>

#include "conformance/world.hpp"
#include "support/effort.hpp"

namespace terrace::detail::test {

namespace {

report run_threads(const plan& p, const rank_main& body, const options& o) {
    report seen(static_cast<std::size_t>(p.ranks()));
    loopback::run(
        p, [&](communicator& comm) { seen[static_cast<std::size_t>(comm.rank())] = body(comm); }, o);
    return seen;
}

world threads(std::string name, bool shared_memory) {
    options o;
    o.shared_memory = shared_memory;
    std::vector<int> sizes{1, 2, 3, 8, 5, 4, 11, 16};  // with sanitizers only the first ones
    sizes.resize(static_cast<std::size_t>(share_sanitized("numbers of ranks", 8, slowness > 20 ? 3 : 4)));
    return {std::move(name), sizes, [o](const plan& p, const rank_main& body) { return run_threads(p, body, o); }, true,
            true};
}

}  // namespace

std::vector<world> worlds() { return {threads("loopback", false), threads("loopback_shm", true)}; }

}  // namespace terrace::detail::test
