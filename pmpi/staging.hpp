#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
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

/// A datatype of one's own, equal to another, which the program may free meanwhile. Move-only; null when moved from.
class own_type {
public:
    own_type() noexcept = default;
    explicit own_type(MPI_Datatype like) { PMPI_Type_dup(like, &type_); }
    own_type(own_type&& other) noexcept : type_(std::exchange(other.type_, MPI_DATATYPE_NULL)) {}
    own_type& operator=(own_type&& other) noexcept {
        std::swap(type_, other.type_);
        return *this;
    }
    ~own_type() {
        if (type_ != MPI_DATATYPE_NULL) PMPI_Type_free(&type_);
    }
    MPI_Datatype get() const noexcept { return type_; }

private:
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
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
    own_type type_;  // where elements are packed by MPI
    MPI_Comm comm_ = MPI_COMM_NULL;
    type_layout layout_;
    std::vector<piece> pieces_;
    std::unique_ptr<std::byte[]> own_;
};

}  // namespace terrace::detail::pmpi
