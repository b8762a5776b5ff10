#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/request.hpp>

#include "calls/call_groups.hpp"
#include "calls/call_runner.hpp"
#include "calls/call_times.hpp"
#include "calls/device/device_calls.hpp"

namespace terrace::detail {

/// Admits the calls of a communicator. A valid call begins at once if possible; otherwise it waits in the queue for its
/// comparison, for earlier calls, or for the end of its group. Buffers are on the host or on a device.
class call_admission {
public:
    /// Parts of the communicator. All referenced objects must outlive the call_admission.
    struct parts {
        call_runner::parts runs;
        call_times* times;                               ///< null: times are not recorded
        std::function<request(std::uint64_t)> requests;  ///< makes a request for a call of host buffers
        std::function<void()> wake;                      ///< called when there may be work that no caller waits for
        std::function<void()> empty_queue;               ///< progresses calls until none waits in the queue
    };

    explicit call_admission(const parts& with);

    request start(const full_call& c);
    /// Starts an alltoallv, gatherv or scatterv.
    request start(const uneven_blocks& b);
    /// Ends the caller's group, and starts its calls.
    void group_end();
    /// @throws usage_error if the communicator is broken; transport_error or timeout_error if its device has failed
    void expect_unbroken(std::string_view what) const {
        with_.runs.failure.expect_none(what);
        if (on_device_) on_device_->check();
    }
    /// @throws usage_error if the caller has a group open
    void expect_no_group(std::string_view call);
    /// Closes a request if its call is in the caller's open group. @throws usage_error in this case
    void expect_begun(std::uint64_t ticket);

    /// Enables device buffers, on this device. Collective.
    void use_device(const device_setting& on, int lanes);
    const std::optional<device_setting>& device_in_use() const noexcept { return device_; }
    /// Returns the calls of device buffers; null if there is no device.
    device_calls* device() const noexcept { return on_device_.get(); }
    /// Returns the same. @param what function that the caller has called   @throws usage_error if there is no device
    device_calls& device_for(std::string_view what) const;
    void drop_device() noexcept { on_device_.reset(); }
    /// Enqueues a call of device buffers behind the work in `stream`. @returns its number; 0: there is nothing to do
    std::uint64_t enqueue(const full_call& c, CUstream_st* stream);

    call_runner& runner() noexcept { return runner_; }
    call_queue& queue() noexcept { return queue_; }
    call_groups& groups() noexcept { return groups_; }

    /// Bit that marks the number of a request as a ticket of the queue, not a number of the engine.
    static constexpr std::uint64_t ticket_bit = std::uint64_t{1} << 62;

private:
    void meet(const call_shape& call, const std::string& objection);
    request add_to_group(open_group& group, const full_call& c);
    std::uint64_t join_group(open_group& group, const full_call& c);
    void begin_in_order(const std::vector<std::uint64_t>& calls) {
        for (const std::uint64_t ticket : calls) queue_.enqueue(ticket);
        queue_.begin_waiting();
        with_.wake();
    }
    request request_for(std::uint64_t ticket) const { return with_.requests(ticket | ticket_bit); }

    parts with_;
    call_runner runner_;
    call_queue queue_;  // calls that have to wait, and uneven calls
    call_groups groups_;
    std::optional<device_setting> device_;
    std::unique_ptr<device_calls> on_device_;
};

}  // namespace terrace::detail
