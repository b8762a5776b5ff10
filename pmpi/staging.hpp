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

/// Consecutive elements of a buffer, each one extent of their type after the one before.
struct piece {
    std::int64_t begin = 0;  ///< [bytes] from the buffer's address
    std::int64_t count = 0;  ///< elements
};

/// A copy of a datatype, since the program may free the original meanwhile. Move-only; null when moved from.
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

/// An MPI buffer as Terrace accepts one: dense bytes. If the type is dense and pieces lie side by side, this is the
/// caller's memory; else memory of its own, into which elements are packed and from which they are unpacked.
class staged {
public:
    /// Makes an empty buffer, whose address is null.
    staged() noexcept = default;
    /// @param apart true if the caller's memory must not be used
    staged(const void* at, MPI_Datatype type, std::vector<piece> pieces, MPI_Comm comm, bool apart = false);

    std::byte* data() const noexcept { return data_; }
    /// Packs the elements of the caller's memory, if this buffer has its own memory.
    void collect() const;
    /// Unpacks elements into the caller's memory, if this buffer has its own memory.
    void deliver() const;

private:
    template <class Step>
    void each_part(Step step) const;

    std::byte *at_ = nullptr, *data_ = nullptr;
    own_type type_;  // set if MPI packs the elements
    MPI_Comm comm_ = MPI_COMM_NULL;
    type_layout layout_;
    std::vector<piece> pieces_;
    std::unique_ptr<std::byte[]> own_;
};

}  // namespace terrace::detail::pmpi
