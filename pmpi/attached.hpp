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

/// State of the drop-in for an MPI communicator, from its first call until it is freed. Kept as an attribute of it.
struct attached {
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0, size = 0;
    bool is_inter = false;
    bool is_world = false;       ///< MPI_COMM_WORLD itself
    bool has_all_ranks = false;  ///< has the ranks of MPI_COMM_WORLD, in any order
    std::string label;           ///< for the report: "world", "intercommunicator", or ranks of MPI_COMM_WORLD, "0-3,8"
    statistics rows;

    bool tried = false;               ///< creation of `by` has been tried
    std::optional<communicator> by;   ///< Terrace's communicator; nothing: not made yet, or failed
    bool can_start = false;           ///< started calls may use `by`: MPI makes progress on them, on all ranks
    std::string trouble;              ///< why there is no communicator
    std::string last_algorithm;       ///< algorithm of the last call, if its shape was new
    std::atomic<bool> in_use{false};  ///< a thread uses `by`
    std::atomic<int> started{0};      ///< number of started calls of `by` that are not complete
    std::atomic<int> held_back{0};    ///< number of these not begun, since ranks still agree on them or others
};

/// Exclusive use of a communicator by one thread. Any thread that is in MPI makes progress on started calls.
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

/// Records in a row the algorithm that Terrace chose for a new shape of call.
inline void keep_algorithm(attached& on, row& r) {
    if (!on.last_algorithm.empty()) r.algorithm = std::move(on.last_algorithm);
}

/// Returns the state of a communicator, made at its first call; null if MPI does not run, the drop-in has ended, or the
/// handle is invalid.
attached* attached_to(MPI_Comm comm);

/// Makes Terrace's communicator, unless this was tried before. Collective over all ranks: if one cannot make it, none
/// has it. Returns true if it exists.
bool make_communicator(attached& on);

/// Calls `visit` for the state of each communicator, in the order of first calls.
void each_attached(const std::function<void(const attached&)>& visit);

}  // namespace terrace::detail::pmpi
