// Calls that do not block, as generalized requests. Open MPI calls functions that were registered for it wherever it
// waits, also in MPI_Recv: they move Terrace's calls along.

#include "pmpi/requests.hpp"

#include <dlfcn.h>

#include <atomic>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "pmpi/errors.hpp"
#include "pmpi/real.hpp"
#include "pmpi/terrace_call.hpp"

namespace terrace::detail::pmpi {

namespace {

using progress_function = int (*)();

// Of Open MPI's libopen-pal, which libmpi brings along.
struct progress_registry {
    int (*add)(progress_function);
    progress_registry() : add(reinterpret_cast<decltype(add)>(dlsym(RTLD_DEFAULT, "opal_progress_register"))) {}
};
const progress_registry& progress() {
    static const progress_registry found;
    return found;
}

// A call in flight.
struct started_call {
    attached& on;
    terrace_call made;
    request of;
    MPI_Request outside = MPI_REQUEST_NULL;
    int* state = nullptr;  // of the MPI_Request, which frees it: the code that it is to return
    int code = MPI_SUCCESS;
};

struct in_flight {
    std::mutex lock;
    std::list<std::unique_ptr<started_call>> calls;
    std::atomic<int> count{0};
};

// Never destroyed: MPI may call poll() at any time.
in_flight& all() {
    static auto* const made = new in_flight;
    return *made;
}

thread_local bool polling = false;

// True if the call is complete. @param c nobody else is in its communicator
bool advance(started_call& c) noexcept {
    try {
        if (!c.of.test()) return false;
        c.made.finish();
    } catch (const std::exception& e) {
        c.code = report_error(c.on.comm, e);
    }
    return true;
}

// MPI's callbacks of a generalized request. Its state is the code of the call.
int query(void* state, MPI_Status* status) {
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return *static_cast<const int*>(state);
}
int free_state(void* state) {
    delete static_cast<int*>(state);
    return MPI_SUCCESS;
}
int cancel(void*, int) { return MPI_SUCCESS; }

// Moves all calls along whose communicators are free, and completes requests. Returns how many.
int poll_all() noexcept {
    in_flight& f = all();
    std::list<std::unique_ptr<started_call>> done;
    {
        const std::unique_lock held(f.lock, std::try_to_lock);
        if (!held.owns_lock()) return 0;
        for (auto c = f.calls.begin(); c != f.calls.end();) {
            const auto here = c++;
            attached& on = (*here)->on;
            if (on.in_use.exchange(true, std::memory_order_acquire)) continue;
            if (advance(**here)) {
                --on.started;
                done.splice(done.end(), f.calls, here);
            }
            on.in_use.store(false, std::memory_order_release);
        }
        f.count.store(static_cast<int>(f.calls.size()), std::memory_order_relaxed);
    }
    for (const auto& c : done) {
        *c->state = c->code;
        PMPI_Grequest_complete(c->outside);
    }
    return static_cast<int>(done.size());
}

int poll() {
    if (polling || all().count.load(std::memory_order_relaxed) == 0) return 0;
    polling = true;
    const own_calls inside;
    const int done = poll_all();
    polling = false;
    return done;
}

void complete_all_on(attached& on) {
    while (on.started > 0) {
        const bool was = std::exchange(polling, true);
        if (poll_all() == 0) sched_yield();
        polling = was;
    }
}

}  // namespace

bool can_start() noexcept { return progress().add != nullptr; }

int start_by_terrace(const call& c, attached& on, row& r, MPI_Request* outside) noexcept {
    static const int registered = progress().add(&poll);
    static_cast<void>(registered);
    const own_calls inside;
    try {
        complete_started = &complete_all_on;
        auto made = std::make_unique<started_call>(started_call{on, terrace_call(c, on), {}});
        auto state = std::make_unique<int>(MPI_SUCCESS);
        made->state = state.get();
        {
            const turn mine(on);
            on.last_algorithm.clear();
            made->of = made->made.start(*on.by);
            keep_algorithm(on, r);
            ++on.started;
        }
        PMPI_Grequest_start(&query, &free_state, &cancel, state.release(), &made->outside);
        *outside = made->outside;
        in_flight& f = all();
        const std::lock_guard held(f.lock);
        f.calls.push_back(std::move(made));
        f.count.store(static_cast<int>(f.calls.size()), std::memory_order_relaxed);
        return MPI_SUCCESS;
    } catch (const std::exception& e) {
        *outside = MPI_REQUEST_NULL;
        return report_error(c.comm, e);
    }
}

}  // namespace terrace::detail::pmpi
