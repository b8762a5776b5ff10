#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <mpi.h>

#include "pmpi/call.hpp"
#include "pmpi/datatypes.hpp"

namespace terrace::detail::pmpi {

/// Elements of a buffer that lie side by side, in units of the extent of their type.
struct piece {
    std::int64_t begin = 0;  ///< [bytes] from the buffer's address
    std::int64_t count = 0;  ///< elements
};

/// A buffer of MPI's as Terrace accepts one: dense bytes. Where the type is predefined and pieces lie side by side it
/// is the caller's memory, else memory of its own, into which elements are packed and from which they are unpacked.
class staged {
public:
    /// Makes an empty one, whose address is null.
    staged() noexcept = default;
    /// @param apart true if the caller's memory must not be used
    staged(const void* at, MPI_Datatype type, std::vector<piece> pieces, MPI_Comm comm, bool apart = false);

    std::byte* data() const noexcept { return data_; }
    /// Reads the caller's memory.
    void collect() const;
    /// Writes to the caller's memory.
    void deliver() const;

private:
    template <class Step>
    void each_part(Step step) const;

    std::byte *at_ = nullptr, *data_ = nullptr;
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
    MPI_Comm comm_ = MPI_COMM_NULL;
    type_layout layout_;
    std::vector<piece> pieces_;
    std::unique_ptr<std::byte[]> own_;
};

}  // namespace terrace::detail::pmpi
