#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <mpi.h>
#include <sched.h>

#include <terrace/communicator.hpp>

#include "pmpi/statistics.hpp"

namespace terrace::detail::pmpi {

/// What the drop-in keeps of an MPI communicator, from its first call until it is freed: an attribute of it.
struct attached {
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0, size = 0;
    bool is_inter = false;
    bool is_world = false;       ///< MPI_COMM_WORLD itself
    bool has_all_ranks = false;  ///< those of MPI_COMM_WORLD, in whatever order
    std::string label;           ///< for the report: "world", or its ranks there, "0-3,8"
    statistics rows;

    bool tried = false;               ///< to make the communicator
    std::optional<communicator> by;   ///< nothing: not made yet, or it cannot be
    bool can_start = false;           ///< started calls run by it: on all ranks MPI can move them along
    std::string trouble;              ///< why not
    std::string last_algorithm;       ///< of the shape of call that Terrace saw last
    std::atomic<bool> in_use{false};  ///< some thread is in `by`
    std::atomic<int> started{0};      ///< calls of `by` that do not block and are not complete
    std::atomic<int> held_back{0};    ///< those of them that Terrace has not started: ranks still agree, or others do
};

/// The use of a communicator by one thread. Calls that do not block are moved along by whichever thread is in MPI.
class turn {
public:
    explicit turn(attached& on) noexcept : on_(on) {
        while (on_.in_use.exchange(true, std::memory_order_acquire)) sched_yield();
    }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;
    ~turn() { on_.in_use.store(false, std::memory_order_release); }

private:
    attached& on_;
};

/// Notes in a row which algorithm Terrace chose for a new shape of call.
inline void keep_algorithm(attached& on, row& r) {
    if (!on.last_algorithm.empty()) r.algorithm = std::move(on.last_algorithm);
}

/// Returns what is kept of a communicator, made at its first call; null where MPI does not run, or the drop-in has
/// ended, or the handle is none.
attached* attached_to(MPI_Comm comm);

/// Makes Terrace's communicator, unless that was tried before. Collective over all ranks, which agree: where one of
/// them cannot make it, none has it. Returns true if it is there.
bool make_communicator(attached& on);

/// Calls `visit` with each that there is, in the order of first calls.
void each_attached(const std::function<void(const attached&)>& visit);

}  // namespace terrace::detail::pmpi
