// Ranks are threads, each with a UCX worker, and meet in a store of this process.

#include <map>
#include <mutex>
#include <thread>

#include <terrace/ucx.hpp>

#include "conformance/world.hpp"

namespace terrace::detail::test {

namespace {

struct table {
    std::mutex guard;
    std::map<std::string, std::string> values;

    store of(int rank, int size) {
        return {.rank = rank,
                .size = size,
                .put =
                    [this](const std::string& key, const std::string& value) {
                        const std::lock_guard lock(guard);
                        values[key] = value;
                    },
                .get = [this](const std::string& key) -> std::optional<std::string> {
                    const std::lock_guard lock(guard);
                    const auto found = values.find(key);
                    if (found == values.end()) return {};
                    return found->second;
                },
                .remove =
                    [this](const std::string& key) {
                        const std::lock_guard lock(guard);
                        values.erase(key);
                    }};
    }
};

report run_threads(const plan& p, const rank_main& body, bool shared_memory) {
    options o;
    o.place = options::placement::anywhere;
    o.shared_memory = shared_memory;
    o.timeout = std::chrono::minutes(2);
    table meeting;
    report seen(static_cast<std::size_t>(p.ranks()));
    std::vector<std::exception_ptr> failures(seen.size());
    {
        std::vector<std::jthread> ranks;
        for (std::size_t rank = 0; rank < seen.size(); ++rank)
            ranks.emplace_back([&, rank] {
                try {
                    communicator comm = ucx::create(meeting.of(static_cast<int>(rank), p.ranks()), p, o);
                    seen[rank] = body(comm);
                } catch (...) {
                    failures[rank] = std::current_exception();
                }
            });
    }
    for (const std::exception_ptr& failure : failures)
        if (failure) std::rethrow_exception(failure);
    return seen;
}

world threads(std::string name, std::vector<int> sizes, bool shared_memory) {
    return {std::move(name), std::move(sizes),
            [shared_memory](const plan& p, const rank_main& body) { return run_threads(p, body, shared_memory); }, true,
            true};
}

}  // namespace

// With shared memory one size is enough, since other transports' suites test the same code.
std::vector<world> worlds() { return {threads("ucx", {1, 2, 3, 8}, false), threads("ucx_shm", {4}, true)}; }

}  // namespace terrace::detail::test
