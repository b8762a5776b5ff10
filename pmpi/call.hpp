#pragma once

#include <cstdint>

#include <mpi.h>

#include "pmpi/call_kind.hpp"

namespace terrace::detail::pmpi {

/// Counts or displacements by rank, of either width: those of MPI_X and of MPI_X_c. Null if a call has none.
class numbers {
public:
    constexpr numbers() noexcept = default;
    constexpr numbers(const int* at) noexcept : at_(at) {}  // NOLINT: MPI's arrays are numbers
    template <class Wide>
    requires(sizeof(Wide) == sizeof(std::int64_t)) constexpr numbers(const Wide* at) noexcept
        : at_(at), wide_(true) {}  // NOLINT: as above

    explicit operator bool() const noexcept { return at_ != nullptr; }
    std::int64_t operator[](int rank) const noexcept {
        return wide_ ? static_cast<const std::int64_t*>(at_)[rank] : static_cast<const int*>(at_)[rank];
    }

private:
    const void* at_ = nullptr;
    bool wide_ = false;
};

/// A buffer that a call sends or receives, as passed to MPI.
struct side {
    const void* at = nullptr;
    std::int64_t count = 0;  ///< elements of the buffer, or of each block; 0 if `counts` has them
    MPI_Datatype type = MPI_DATATYPE_NULL;
    numbers counts{};  ///< elements of each block, by rank
    numbers begins{};  ///< beginning of each block, in extents of the type; none: side by side
};

/// A call with its MPI arguments.
struct call {
    call_kind what = call_kind::barrier;
    MPI_Comm comm = MPI_COMM_NULL;
    side send{}, recv{};
    MPI_Op op = MPI_OP_NULL;
    int root = 0;
};

}  // namespace terrace::detail::pmpi
