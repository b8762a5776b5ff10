#pragma once

#include <mpi.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace terrace::detail {

/// Returns MPI's words for an error code.
std::string error_text(int code);

/// For set-up. @throws transport_error
void check(int code, const char* call);

/// A communicator that reports errors, freed at the end unless it is abandoned.
class owned_comm {
public:
    explicit owned_comm(MPI_Comm comm);
    owned_comm(const owned_comm&) = delete;
    owned_comm& operator=(const owned_comm&) = delete;
    ~owned_comm();
    MPI_Comm get() const noexcept { return comm_; }
    /// Never frees it, so that MPI gives its context to no other.
    void abandon() noexcept { abandoned_ = true; }
    bool is_abandoned() const noexcept { return abandoned_; }
    int rank() const;
    int size() const;

private:
    MPI_Comm comm_;
    bool abandoned_ = false;
};

/// A communicator and the ranks of it that are used, by a numbering of their own; none: all, by their ranks.
struct numbered_comm {
    std::shared_ptr<owned_comm> comm;
    std::vector<int> ranks{};

    int number(int rank) const { return ranks.empty() ? rank : ranks[static_cast<std::size_t>(rank)]; }
    int rank(int number) const {
        return ranks.empty() ? number : static_cast<int>(std::find(ranks.begin(), ranks.end(), number) - ranks.begin());
    }
};

bool mpi_is_over() noexcept;

/// Lets MPI_Finalize of Open MPI wait for no other rank, as `mpirun --mca async_mpi_finalize 1` does from the start:
/// one that has died never comes, and the launcher does not always notice. It takes a second then, as slower ranks may
/// still have to send to this one, and Open MPI may end a rank whose peer is gone. Other MPIs are left as they are.
void finalize_without_others() noexcept;

}  // namespace terrace::detail
