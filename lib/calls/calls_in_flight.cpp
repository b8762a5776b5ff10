#include "calls/calls_in_flight.hpp"

#include <cstddef>
#include <mutex>
#include <vector>

namespace terrace::detail {

namespace {

struct free_sources {
    std::mutex guard;
    std::vector<call_source*> list;
    std::size_t made = 0;
};

// Never destroyed, like the sources in it, since requests may be destroyed after everything else.
free_sources& unused() {
    static auto& all = *new free_sources;
    return all;
}

}  // namespace

call_source& call_source::acquire(calls_in_flight& of) {
    free_sources& from = unused();
    const std::lock_guard lock(from.guard);
    if (from.list.empty()) {
        from.list.reserve(++from.made);  // release() must not throw
        from.list.push_back(new call_source);
    }
    call_source& taken = *from.list.back();
    from.list.pop_back();
    taken.calls.store(&of, std::memory_order_release);
    return taken;
}

void call_source::release() noexcept {
    free_sources& to = unused();
    const std::lock_guard lock(to.guard);
    calls.store(nullptr, std::memory_order_relaxed);
    life.fetch_add(1, std::memory_order_relaxed);
    to.list.push_back(this);
}

}  // namespace terrace::detail
