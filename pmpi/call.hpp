#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <mpi.h>

namespace terrace::detail::pmpi {

/// The calls that are intercepted. Every row of calls.def is one.
enum class call_kind : std::uint8_t {
#define TERRACE_PMPI_CALL(name, mpi, traits, parameters, arguments, call) name,
#include "pmpi/calls.def"
};

inline constexpr std::string_view call_names[] = {
#define TERRACE_PMPI_CALL(name, mpi, traits, parameters, arguments, call) #name,
#include "pmpi/calls.def"
};
inline constexpr std::size_t call_kinds = sizeof call_names / sizeof call_names[0];

/// The functions of a call: MPI_Allreduce, MPI_Iallreduce, MPI_Allreduce_init.
enum class form : std::uint8_t { blocking, started, persistent };
inline constexpr std::size_t forms = 3;

constexpr std::string_view to_string(call_kind k) noexcept { return call_names[static_cast<std::size_t>(k)]; }

namespace traits {
inline constexpr unsigned none = 0, reduces = 1, rooted = 2, passes = 4;
inline constexpr unsigned of_call[] = {
#define TERRACE_PMPI_CALL(name, mpi, traits, parameters, arguments, call) traits,
#include "pmpi/calls.def"
};
}  // namespace traits

constexpr bool reduces(call_kind k) noexcept {
    return (traits::of_call[static_cast<std::size_t>(k)] & traits::reduces) != 0;
}
constexpr bool has_root(call_kind k) noexcept {
    return (traits::of_call[static_cast<std::size_t>(k)] & traits::rooted) != 0;
}

/// True if MPI runs all calls.
constexpr bool passes(call_kind k) noexcept {
    return (traits::of_call[static_cast<std::size_t>(k)] & traits::passes) != 0;
}

/// False if ranks need not agree on how much is moved, or nothing is.
constexpr bool has_size(call_kind k) noexcept {
    return k != call_kind::barrier && k != call_kind::alltoallv && !passes(k);
}

/// Counts or displacements by rank, of either width: those of MPI_X and of MPI_X_c. Null where a call has none.
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

/// What a call sends or receives, as MPI is told.
struct side {
    const void* at = nullptr;
    std::int64_t count = 0;  ///< elements of the buffer, or of each block; 0 where `counts` says it
    MPI_Datatype type = MPI_DATATYPE_NULL;
    numbers counts{};  ///< elements of each block, by rank
    numbers begins{};  ///< where each block begins, in extents of the type; none: side by side
};

/// A call with the arguments that MPI was given.
struct call {
    call_kind what = call_kind::barrier;
    MPI_Comm comm = MPI_COMM_NULL;
    side send{}, recv{};
    MPI_Op op = MPI_OP_NULL;
    int root = 0;
};

}  // namespace terrace::detail::pmpi
