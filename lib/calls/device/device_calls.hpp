#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <terrace/device.hpp>
#include <terrace/options.hpp>

#include "calls/binding.hpp"
#include "calls/call.hpp"
#include "calls/calls_in_flight.hpp"
#include "calls/program_cache.hpp"
#include "executor/stream_program.hpp"
#include "transport/nccl/gpu_runtime.hpp"
#include "transport/network.hpp"

namespace terrace::detail {

/// The device of a communicator's device buffers, and the runtime that accesses it.
struct device_setting {
    const gpu_runtime* gpu = nullptr;
    int number = 0;
    std::string nccl_host = {};  ///< value of NCCL_HOSTID, which identifies hosts for NCCL; empty: not set
};

/// Calls of a communicator with buffers on a device. They run in queues of the device, by the communicator's plan.
class device_calls final : public calls_in_flight {
public:
    /// Collective over `host`, which may end first. @param b must outlive this   @throws transport_error, timeout_error
    device_calls(const binding& b, const device_setting& on, connection& host, const options& o, int lanes);
    ~device_calls();

    std::string_view name() const noexcept { return net_->name(); }
    /// Returns true if the call's buffers are on the device. @throws usage_error if only one of them is
    bool holds(const call_shape& call, int callers_rank, const void* send, const void* recv) const;
    /// Returns true for memory of the device.
    bool holds(const void* memory) const { return memory != nullptr && net_->holds(memory); }
    /// Returns a stream for callers that have none.
    CUstream_st* own_stream() const noexcept { return net_->own_stream(); }

    /// Returns why a call cannot be enqueued behind the work in the stream, with what to do; empty if it can.
    std::string objection_to(const call_shape& call, CUstream_st* stream) const;
    /// Enqueues a call of at least one element. @returns its number   @throws as test()
    std::uint64_t enqueue(const full_call& c, CUstream_st* stream);
    /// @throws transport_error, timeout_error if the device's network has failed
    bool test(std::uint64_t call) override;
    void wait(std::uint64_t call) override;
    /// @throws usage_error always: the stream shows when a call is complete
    void then(std::uint64_t call, callback f) override;
    void wait_for_all() { wait(last_); }
    /// Checks the device's network for a failure. @throws as test()
    void check() const;
    /// Ends all work in flight, after another failure of the communicator.
    void abandon() noexcept { net_->abandon(); }

private:
    using programs = program_cache<stream_program>;

    void prepare_root(const call_shape& call, CUstream_st* stream);
    // One program serves all calls of a shape in flight: queues run them one after the other.
    programs::entry& find(const call_shape& call) {
        if (programs::entry* known = programs_.use(call)) return *known;
        return programs_.add({.shape = call, .run = bind(call)}, [&](auto number) { return net_->done(number); });
    }
    stream_program bind(const call_shape& call) const;
    std::vector<std::string> over_mpi(const rule& chosen) const;

    const binding& binding_;
    std::unique_ptr<stream_transport> net_;
    std::set<std::pair<collective, int>> roots_;  // prepared roots, in the plan's numbering
    programs programs_;
    std::uint64_t last_ = 0;  // number of the latest call
};

/// Returns the shape of a call on a stream, of a rank of `comm`.
/// @throws usage_error if the counts of its buffers contradict each other
call_shape shape_of(collective what, const nccl::stream_call& c, const communicator& comm,
                    reduce_op op = reduce_op::sum, int root = 0);

/// Returns the shape of a call with blocks of the given counts, by rank.
/// @throws usage_error if the sizes of its buffers contradict the counts
call_shape shape_of(collective what, const nccl::stream_call& c, const communicator& comm,
                    std::span<const std::int64_t> counts, reduce_op op = reduce_op::sum);

}  // namespace terrace::detail
