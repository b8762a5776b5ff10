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

/// What is measured.
struct subject {
    collective what = collective::allreduce;
    element_type type = element_type::float32;
    reduce_op op = reduce_op::sum;
    int root = 0;
    bool own_lengths = false;  ///< settings::own_lengths
};

/// The buffers of one call. `count` elements: of each rank's block, where there are blocks. A broadcast uses `recv`.
struct call {
    const void* send;
    void* recv;
    std::int64_t count;

    bool operator==(const call&) const = default;
};

/// How a backend runs a message size, for people.
struct description {
    std::string shape;  ///< stages innermost first, or the function called
    int lanes = 1;
    std::int64_t chunk = 0;    ///< [bytes]; 0: the whole vector at once
    bool crosses_bus = false;  ///< buffers on a device go through memory of the host
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
    /// Returns what it may be away from the reduction of so many bytes (rounding_error).
    virtual double rounding(std::int64_t /*bytes*/) const { return 0; }
    /// Makes the calls, all at once where it can. Those of device buffers may go on when it returns, in a stream ...
    virtual void run(std::span<const call> calls) = 0;
    /// ... until this does.
    virtual void settle() {}
    /// Memory for buffers that suits it best, or null where any will do. Collective.
    virtual std::shared_ptr<std::byte> allocate(std::int64_t /*bytes*/) { return nullptr; }

protected:
    subject of_;
};

/// What backends are made of.
struct setting {
    const world& ranks;
    const plan& chosen;  ///< the plan file
    options how;
    subject of;
    bool ucx = false;             ///< messages go over UCX, not MPI
    bool windows = false;         ///< buffers that peers on the node reach, where a backend can make them
    const gpu* device = nullptr;  ///< that has the buffers; null: the host has
    bool staging = false;         ///< device buffers go through memory of the host
    bool graph = false;           ///< calls in a stream are captured once, and replayed
};

/// The plan for `chosen`'s machine by which a backend of that name runs `what`: a baseline is a plan as well, made by
/// the planner for the same machine with the same rules for lanes and chunks. What differs is the algorithm and nothing
/// else.
/// @param name hierarchical (that is `chosen`), sequential (without its chunks: each stage begins when the one before
/// is complete), staged, flat-ring, two-level or central
/// @throws usage_error if the collective has none of that name
plan plan_of(std::string_view name, const plan& chosen, collective what);

/// The same for `what`; all other collectives run as `chosen` says.
plan plan_with(std::string_view name, const plan& chosen, collective what);

/// How by the plan a message size is run.
description describe(const plan& p, collective what, std::int64_t bytes);

struct backend_kind {
    std::string_view name;
    std::string_view description;
    bool of_host, of_device;  ///< whose buffers it takes
    std::unique_ptr<backend> (*make)(const setting& s, std::string_view name);
};

/// The one table of backends: the command line, its help and the runs follow it.
std::span<const backend_kind> backend_kinds() noexcept;

/// Collective. `name` is one of the table's. @throws usage_error, on every rank, if there is no such backend for the
/// subject
std::unique_ptr<backend> make_backend(const setting& s, std::string_view name);

}  // namespace terrace::detail::bench
