#pragma once

#include <mpi.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/index.hpp"

namespace terrace::detail {

/// Returns MPI's text for an error code.
std::string error_text(int code);

/// Checks the result of an MPI function during set-up. @throws transport_error
void check(int code, const char* call);

bool mpi_is_over() noexcept;

/// A communicator that returns errors. The destructor frees it, unless it is abandoned.
class owned_comm {
public:
    explicit owned_comm(MPI_Comm comm) : comm_(comm) {
        if (comm_ != MPI_COMM_NULL) MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    }
    owned_comm(const owned_comm&) = delete;
    owned_comm& operator=(const owned_comm&) = delete;
    ~owned_comm() {
        if (comm_ != MPI_COMM_NULL && !abandoned_ && !mpi_is_over()) MPI_Comm_free(&comm_);
    }
    MPI_Comm get() const noexcept { return comm_; }
    /// Never frees the communicator, so MPI gives its context to no other.
    void abandon() noexcept { abandoned_ = true; }
    bool is_abandoned() const noexcept { return abandoned_; }
    int rank() const {
        int rank = 0;
        check(MPI_Comm_rank(comm_, &rank), "MPI_Comm_rank");
        return rank;
    }
    int size() const {
        int size = 0;
        check(MPI_Comm_size(comm_, &size), "MPI_Comm_size");
        return size;
    }

private:
    MPI_Comm comm_;
    bool abandoned_ = false;
};

/// Makes a communicator of some ranks of `world`, all of them in `comm`. Collective over these. @throws transport_error
MPI_Comm part_of(const owned_comm& comm, const owned_comm& world, const std::vector<int>& members);

/// A communicator with a new numbering of its ranks, or of some. If `ranks` is empty, all keep their numbers.
struct numbered_comm {
    std::shared_ptr<owned_comm> comm;
    std::vector<int> ranks{};

    int number(int rank) const { return ranks.empty() ? rank : ranks[at(rank)]; }
    int rank(int number) const { return ranks.empty() ? number : position_of(number, ranks); }
};

/// Removes completed requests from a list without gaps, and the entries of `beside` at the same places, after calling f
/// on each. The last request moves into each gap, from the highest gap down.
template <class Beside, class F>
void take_out(std::span<int> gaps, std::vector<MPI_Request>& requests, std::vector<Beside>& beside, const F& f) {
    std::ranges::sort(gaps, std::ranges::greater());
    for (const int gap : gaps) {
        f(beside[at(gap)]);
        requests[at(gap)] = requests.back();
        beside[at(gap)] = beside.back();
        requests.pop_back();
        beside.pop_back();
    }
}

/// Makes MPI_Finalize of Open MPI wait for no other rank, like `mpirun --mca async_mpi_finalize 1`. A dead rank never
/// arrives, and the launcher does not always detect this. MPI_Finalize then lasts a second, since slower ranks may
/// still send to this rank, and Open MPI may end a rank whose peer is gone. Other MPIs remain unchanged.
void finalize_without_others() noexcept;

}  // namespace terrace::detail
