#include "pmpi/dispatch.hpp"

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>

#include "pmpi/attached.hpp"
#include "pmpi/decision.hpp"
#include "pmpi/errors.hpp"
#include "pmpi/report.hpp"
#include "pmpi/requests.hpp"
#include "pmpi/settings.hpp"
#include "pmpi/terrace_call.hpp"

namespace terrace::detail::pmpi {

namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point begin) noexcept {
    return std::chrono::duration<double>(clock::now() - begin).count();
}

// Runs a call and counts it, with its time if there is a report.
template <class Run>
int counted(tally& in, Run run) {
    if (!current_settings().times()) {
        ++in.calls;
        return run();
    }
    const clock::time_point begin = clock::now();
    const int code = run();
    in.add(seconds_since(begin));
    return code;
}

int run_by_terrace(const call& c, attached& on, row& r) noexcept {
    const own_calls inside;
    try {
        terrace_call made(c, on);
        if (on.held_back > 0) start_held_back(on);
        {
            const turn mine(on);
            if (made.must_agree()) made.agree(*on.by).wait();
            on.last_algorithm.clear();
            made.start(*on.by).wait();
            keep_algorithm(on, r);
        }
        made.finish();
        return MPI_SUCCESS;
    } catch (const std::exception& e) {
        return report_error(c.comm, e);
    }
}

// Ranks begin a call of a trial together, so earlier delays do not count.
int run_trial(const call& c, attached& on, row& r, runner by, const mpi_call& by_mpi) {
    if (by == runner::terrace && !make_communicator(on)) {
        r.tried.give_up();
        ++r.why[static_cast<std::size_t>(passed::no_communicator)];
        return counted(r.by_mpi, by_mpi);
    }
    real.barrier(c.comm);
    const clock::time_point begin = clock::now();
    const int code = by == runner::terrace ? run_by_terrace(c, on, r) : by_mpi();
    const double seconds = seconds_since(begin);
    r.tried.add(by, seconds);
    r.by(by).add(current_settings().times() ? seconds : 0);
    if (r.tried.may_settle()) {
        const trial::durations mine = r.tried.times();
        double times[] = {mine.mpi, mine.terrace};
        real.allreduce(MPI_IN_PLACE, times, 2, MPI_DOUBLE, MPI_MAX, c.comm);
        r.tried.settle({times[0], times[1]});
    }
    return code;
}

int make_or_throw(const call& c, mpi_call by_mpi, form is, MPI_Request* request) {
    attached* const on = attached_to(c.comm);
    if (on == nullptr) return by_mpi();
    if (report_is_wanted.load(std::memory_order_relaxed)) write_wanted_report();
    const bool starts = is == form::started;
    const call_facts f = facts_of(c, *on);
    row& r = on->rows.at(c.what, is, f.bytes);
    r.bytes += static_cast<std::uint64_t>(f.bytes);
    decision d = decide(c, f, *on, on->rows.at(c.what, form::blocking, f.bytes).tried, starts);
    if (d.is_trial) return run_trial(c, *on, r, d.by, by_mpi);
    if (d.by == runner::terrace) {
        if (starts ? on->can_start : make_communicator(*on))
            return counted(r.by_terrace,
                           [&] { return starts ? start_by_terrace(c, *on, r, request) : run_by_terrace(c, *on, r); });
        d.why = starts ? passed::unsupported : passed::no_communicator;
    }
    ++r.why[static_cast<std::size_t>(d.why)];
    return counted(r.by_mpi, by_mpi);
}

// Rows may outlive their communicators, since requests may.
struct persistent_call {
    std::shared_ptr<row> counts;
    std::int64_t bytes;
};
struct persistent_calls {
    std::mutex lock;
    std::map<MPI_Request, persistent_call> all;
    std::atomic<bool> any{false};  // false until the first persistent call: other requests need no lock
};

persistent_calls& persistent() {
    static auto& made = *new persistent_calls;  // never destroyed: static objects may free requests
    return made;
}

}  // namespace

int make_call(const call& c, mpi_call by_mpi, form is, MPI_Request* request) noexcept {
    try {
        return make_or_throw(c, by_mpi, is, request);
    } catch (const std::exception& e) {
        if (is == form::started) *request = MPI_REQUEST_NULL;
        return report_error(c.comm, e);
    }
}

void keep_persistent(const call& c, MPI_Request request) noexcept {
    or_warn("the report leaves out a persistent call", [&] {
        attached* const on = depth == 0 ? attached_to(c.comm) : nullptr;
        if (on == nullptr) return;
        const std::int64_t bytes = facts_of(c, *on).bytes;
        const std::lock_guard held(persistent().lock);
        persistent().all[request] = {on->rows.at(c.what, form::persistent, bytes).shared_from_this(), bytes};
        persistent().any = true;
    });
}

void forget_persistent(MPI_Request request) noexcept {
    if (!persistent().any) return;
    const std::lock_guard held(persistent().lock);
    persistent().all.erase(request);
}

int start_persistent(MPI_Request request, mpi_call by_mpi) noexcept {
    if (!persistent().any) return by_mpi();
    if (report_is_wanted.load(std::memory_order_relaxed)) write_wanted_report();
    row* counts = nullptr;
    {
        const std::lock_guard held(persistent().lock);
        const auto found = persistent().all.find(request);
        if (found == persistent().all.end()) return by_mpi();
        counts = found->second.counts.get();
        counts->bytes += static_cast<std::uint64_t>(found->second.bytes);
        ++counts->why[static_cast<std::size_t>(passed::unsupported)];
    }
    return counted(counts->by_mpi, by_mpi);
}

}  // namespace terrace::detail::pmpi
