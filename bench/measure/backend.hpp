#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <terrace/options.hpp>
#include <terrace/plan.hpp>
#include <terrace/types.hpp>

#include "bench/measure/world.hpp"
#include "plan/plan_data.hpp"

namespace terrace::detail::bench {

class gpu;

/// The operation to measure.
struct subject {
    collective what = collective::allreduce;
    element_type type = element_type::float32;
    reduce_op op = reduce_op::sum;
    int root = 0;
    bool own_lengths = false;  ///< settings::own_lengths
};

/// The buffers of one call. `count`: elements of the vector, or of a block if it has blocks. A broadcast uses `recv`.
struct call {
    const void* send;
    void* recv;
    std::int64_t count;

    bool operator==(const call&) const = default;
};

/// Description of the way in which a back end runs a message size, for people.
struct description {
    std::string shape;  ///< stages innermost first, or the function called
    int lanes = 1;
    std::int64_t chunk = 0;    ///< [bytes]; 0: the whole vector at once
    bool crosses_bus = false;  ///< device buffers go through host memory
};

/// An algorithm under test. Creation and destruction are collective.
class backend {
public:
    explicit backend(const subject& of) : of_(of) {}
    backend(const backend&) = delete;
    backend& operator=(const backend&) = delete;
    virtual ~backend() = default;

    virtual bool in_place() const noexcept { return !row_of(of_.what).exchange; }
    /// @param bytes of the larger buffer
    virtual description describe(std::int64_t bytes) const = 0;
    /// Returns the error bound of a reduction of this many bytes (rounding_error).
    virtual double rounding(std::int64_t /*bytes*/) const { return 0; }
    /// Makes the calls, all at once if possible. Calls on device buffers may still run in a stream on return.
    virtual void run(std::span<const call> calls) = 0;
    /// Waits for such calls.
    virtual void settle() {}
    /// Allocates memory that suits the back end best for buffers; null if any memory does. Collective.
    virtual std::shared_ptr<std::byte> allocate(std::int64_t /*bytes*/) { return nullptr; }

protected:
    subject of_;
};

/// The parameters from which a back end is made.
struct setting {
    const world& ranks;
    const plan& chosen;  ///< from the plan file
    options how;
    subject of;
    bool ucx = false;             ///< messages go over UCX, not MPI
    bool windows = false;         ///< buffers that peers on the node can access, if a back end can make them
    const gpu* device = nullptr;  ///< GPU with the buffers; null: they are in host memory
    bool staging = false;         ///< device buffers go through memory of the host
    bool graph = false;           ///< calls in a stream are captured once, and replayed
};

/// Returns the plan by which the back end `name` runs `what`. A baseline is also a plan, made by the planner for the
/// machine of `chosen` with the same rules for lanes and chunks: only the algorithm differs.
/// @param name hierarchical (`chosen` itself), sequential (without its chunks: each stage begins when the one before is
/// complete), staged, flat-ring, flat-rings, two-level, two-level-nics, central or direct
/// @throws usage_error if the collective has none of that name
plan plan_of(std::string_view name, const plan& chosen, collective what);

/// Returns `chosen` with the rules of plan_of() for `what`.
plan plan_with(std::string_view name, const plan& chosen, collective what);

/// Describes how a plan runs a message size.
description describe(const plan& p, collective what, std::int64_t bytes);

struct backend_kind {
    std::string_view name;
    std::string_view description;
    bool of_host, of_device;  ///< true if it accepts such buffers
    std::unique_ptr<backend> (*make)(const setting& s, std::string_view name);
};

/// Returns the table of back ends, from which the command line, its help and the runs are made.
std::span<const backend_kind> backend_kinds() noexcept;

/// Makes the back end `name` of the table. Collective.
/// @throws usage_error on every rank if there is no such back end for the subject
std::unique_ptr<backend> make_backend(const setting& s, std::string_view name);

}  // namespace terrace::detail::bench
