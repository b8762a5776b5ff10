#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <terrace/error.hpp>
#include <terrace/options.hpp>
#include <terrace/plan.hpp>
#include <terrace/types.hpp>

namespace terrace {

/// A set of ranks that run collectives by a plan. Move-only; a moved-from communicator may only be assigned to or
/// destroyed. Created by `terrace::mpi::create` or `terrace::loopback::run`. Creation and destruction are collective;
/// destroying a broken one is local. Belongs to one thread at a time. All ranks call the same collectives in the same
/// order.
class communicator {
public:
    communicator(communicator&&) noexcept;
    communicator& operator=(communicator&&) noexcept;
    ~communicator();

    /// This process's rank, the one it has in the communicator that this one was created from.
    int rank() const noexcept;
    int size() const noexcept;

    /// data[i] = reduction over all ranks of data[i]; `data` has the same count on every rank and may be empty.
    /// Bitwise equal on all ranks, and from run to run for the same plan and count.
    /// @throws usage_error, transport_error
    template <element T>
    void allreduce(std::span<T> data, reduce_op op = reduce_op::sum) {
        allreduce(data.data(), static_cast<std::int64_t>(data.size()), element_type_of<T>, op);
    }

    /// The same, of `count` elements of `type` at `data`.
    void allreduce(void* data, std::int64_t count, element_type type, reduce_op op = reduce_op::sum);

    /// What an allreduce of `bytes` runs: stages innermost first, e.g. "node:4 scatter direct > core:2 scatter ring".
    std::string shape(std::int64_t bytes) const;

    /// For Terrace's own parts.
    class core;
    explicit communicator(std::unique_ptr<core> c) noexcept;

private:
    std::unique_ptr<core> core_;
};

}  // namespace terrace
