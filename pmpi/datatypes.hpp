#pragma once

#include <cstdint>
#include <optional>

#include <mpi.h>

#include <terrace/types.hpp>

namespace terrace::detail::pmpi {

/// Returns the element type of a predefined datatype of C or Fortran that Terrace reduces as MPI does. Returns nothing
/// for derived, pair, long double, logical, byte and character types. Equal on all ranks of a reduction.
std::optional<element_type> element_of(MPI_Datatype type);
/// Returns the operation of a predefined one; nothing for the user's own, MINLOC, MAXLOC, and logical ones.
std::optional<reduce_op> operation_of(MPI_Op op) noexcept;

/// Returns the bytes of data in one element. @param type not MPI_DATATYPE_NULL
std::int64_t size_of_type(MPI_Datatype type) noexcept;

/// Layout of elements in memory.
struct type_layout {
    std::int64_t size = 0, extent = 0;  ///< [bytes]
    bool dense = false;                 ///< predefined, and without gaps: memory has the bytes of a message
};
type_layout layout_of(MPI_Datatype type) noexcept;

}  // namespace terrace::detail::pmpi
