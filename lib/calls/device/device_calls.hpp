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

/// The device that a communicator's device buffers are on, and how to reach it.
struct device_setting {
    const gpu_runtime* gpu = nullptr;
    int number = 0;
    std::string nccl_host = {};  ///< what tells hosts apart for NCCL, which NCCL_HOSTID says; empty: it does not
};

/// The calls of a communicator whose buffers are on a device: put into queues there by the same plan.
class device_calls final : public calls_in_flight {
public:
    /// Collective over `host`. @param b must outlive this, as `host` need not @throws transport_error, timeout_error
    device_calls(const binding& b, const device_setting& on, connection& host, const options& o, int lanes);
    ~device_calls();

    std::string_view name() const noexcept { return net_->name(); }
    /// Whether the call's buffers are on the device. @throws usage_error if one is and the other is not
    bool holds(const call_shape& call, int callers_rank, const void* send, const void* recv) const;
    /// Whether this is memory of the device.
    bool holds(const void* memory) const { return memory != nullptr && net_->holds(memory); }
    /// A stream for callers that have none.
    CUstream_st* own_stream() const noexcept { return net_->own_stream(); }

    /// Why a call cannot go behind what is in the stream, with what to do; else empty.
    std::string objection_to(const call_shape& call, CUstream_st* stream) const;
    /// Puts a call of at least one element in. @returns its number @throws as test()
    std::uint64_t enqueue(const full_call& c, CUstream_st* stream);
    /// @throws transport_error, timeout_error where the device's network has failed
    bool test(std::uint64_t call) override;
    void wait(std::uint64_t call) override;
    /// @throws usage_error: the stream says when a call is complete
    void then(std::uint64_t call, callback f) override;
    void wait_for_all() { wait(last_); }
    /// As test(), of no call.
    void check() const;
    /// After another failure of the communicator: ends what is under way.
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
    std::set<std::pair<collective, int>> roots_;  // that have been prepared, of the plan's ranks
    programs programs_;
    std::uint64_t last_ = 0;  // call
};

/// Returns the shape of a call on a stream, of a rank of `comm`.
/// @throws usage_error where the counts of its buffers contradict each other
call_shape shape_of(collective what, const nccl::stream_call& c, const communicator& comm,
                    reduce_op op = reduce_op::sum, int root = 0);

/// Returns the shape of a call with blocks of the given counts, by rank.
/// @throws usage_error where the counts of its buffers contradict them
call_shape shape_of(collective what, const nccl::stream_call& c, const communicator& comm,
                    std::span<const std::int64_t> counts, reduce_op op = reduce_op::sum);

}  // namespace terrace::detail
