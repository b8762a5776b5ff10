// Started calls, as generalized requests. While MPI waits, also in MPI_Recv, it calls registered functions, which make
// progress on Terrace's calls.

#include "pmpi/requests.hpp"

#include <dlfcn.h>

#include <algorithm>
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

template <class Function>
Function find(const char* name) {
    return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// MPI's functions to register a polling function, looked up since one library serves several versions. Null: missing.
struct progress_registry {
    // In Open MPI's libopen-pal, which libmpi loads; registers permanently. MPI has no public way to register:
    // generalized requests are only completed from outside. Open MPI 4.1.4 and 5.0.11 have this; otherwise calls pass.
    int (*add)(int (*)()) = find<decltype(add)>("opal_progress_register");
    // In MPICH; registers until the function returns that it is done. MPI_Finalize waits for that.
    int (*start)(int (*)(void*), void*, int stream) = find<decltype(start)>("MPIX_Async_start");
};
const progress_registry& progress() {
    static const progress_registry found;
    return found;
}

// A call in flight. Terrace begins the calls of a communicator in the program's order: a call on which ranks must agree
// first holds back later calls.
struct started_call {
    attached& on;
    row& counts;
    terrace_call made;
    enum { held_back, agreeing, running } is = held_back;
    request of;  // request of the agreement, then of the call
    MPI_Request outside = MPI_REQUEST_NULL;
    int* state = nullptr;  // code that the MPI_Request returns; owned by the MPI_Request
    int code = MPI_SUCCESS;
};

struct in_flight {
    std::mutex lock;
    std::list<std::unique_ptr<started_call>> calls;
    std::atomic<int> count{0};
};

in_flight& all() {
    static auto& made = *new in_flight;  // never destroyed: MPI may call poll() at any time
    return made;
}

thread_local bool polling = false;

// Begins a call that no earlier call of its communicator holds back.
void begin(started_call& c) {
    if (c.made.must_agree()) {
        if (c.is == started_call::held_back) c.of = c.made.agree(*c.on.by);
        c.is = started_call::agreeing;
        if (!c.of.test()) return;
    }
    c.is = started_call::running;
    c.on.last_algorithm.clear();
    c.of = c.made.start(*c.on.by);
    keep_algorithm(c.on, c.counts);
}

// Advances a call; true if complete. @param c no other thread may use its communicator   @param may_begin see begin()
bool advance(started_call& c, bool may_begin) noexcept {
    try {
        if (c.is != started_call::running && may_begin) begin(c);
        if (c.is != started_call::running || !c.of.test()) return false;
        c.made.finish();
    } catch (const std::exception& e) {
        c.code = report_error(c.on.comm, e);
    }
    return true;
}

// MPI's callbacks of a generalized request, whose state is the code of the call.
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

// Makes progress on calls whose communicators are free, and completes requests. Returns the number of these.
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
            const bool was_held_back = (*here)->is != started_call::running;
            // Calls that are held back follow all other calls of their communicator.
            const bool is_first = was_held_back && std::none_of(f.calls.begin(), here, [&](const auto& before) {
                                      return &before->on == &on && before->is != started_call::running;
                                  });
            const bool complete = advance(**here, is_first);
            if (was_held_back && ((*here)->is == started_call::running || complete)) --on.held_back;
            if (complete) {
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

std::atomic<bool> is_polled_by_mpich{false};

int poll_for_mpich(void*) {
    constexpr int goes_on = 0, is_done = 1;  // MPIX_ASYNC_NOPROGRESS, MPIX_ASYNC_DONE
    if (polling) return goes_on;
    poll();
    if (all().count > 0) return goes_on;
    is_polled_by_mpich.exchange(false);
    return all().count > 0 && !is_polled_by_mpich.exchange(true) ? goes_on : is_done;
}

// Makes MPI poll the calls in flight.
void be_polled() {
    constexpr int no_stream = 0x3c000000;  // MPIX_STREAM_NULL
    if (progress().add != nullptr) {
        static const int registered = progress().add(&poll);
        static_cast<void>(registered);
    } else if (!is_polled_by_mpich.exchange(true)) progress().start(&poll_for_mpich, nullptr, no_stream);
}

void poll_while(const std::atomic<int>& some) {
    while (some > 0) {
        const bool was = std::exchange(polling, true);
        if (poll_all() == 0) sched_yield();
        polling = was;
    }
}

}  // namespace

void complete_started(attached& on) { poll_while(on.started); }
void start_held_back(attached& on) { poll_while(on.held_back); }

bool can_start() noexcept {
    if (progress().add != nullptr) return true;
    int level = MPI_THREAD_SINGLE;
    PMPI_Query_thread(&level);
    // MPICH 5.0.2 holds a lock while it polls, which the MPI functions that Terrace calls would take again.
    return progress().start != nullptr && level != MPI_THREAD_MULTIPLE;
}

int start_by_terrace(const call& c, attached& on, row& r, MPI_Request* outside) noexcept {
    const own_calls inside;
    try {
        std::list<std::unique_ptr<started_call>> alone;  // owns the call until it has begun
        alone.push_back(
            std::make_unique<started_call>(started_call{on, r, terrace_call(c, on), started_call::held_back, {}}));
        const auto& made = alone.back();
        auto state = std::make_unique<int>(MPI_SUCCESS);
        made->state = state.get();
        {
            const turn mine(on);
            if (on.held_back == 0) begin(*made);
            if (made->is != started_call::running) ++on.held_back;
            ++on.started;
        }
        PMPI_Grequest_start(&query, &free_state, &cancel, state.release(), &made->outside);
        *outside = made->outside;
        in_flight& f = all();
        {
            const std::lock_guard held(f.lock);
            f.calls.splice(f.calls.end(), alone);
            f.count.store(static_cast<int>(f.calls.size()), std::memory_order_relaxed);
        }
        be_polled();
        return MPI_SUCCESS;
    } catch (const std::exception& e) {
        *outside = MPI_REQUEST_NULL;
        return report_error(c.comm, e);
    }
}

}  // namespace terrace::detail::pmpi
