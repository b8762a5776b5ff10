#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <terrace/communicator.hpp>

#include "api/call_progress.hpp"
#include "api/call_reports.hpp"
#include "api/rank_numbers.hpp"
#include "calls/call_admission.hpp"
#include "calls/failure_state.hpp"
#include "control/control_plane.hpp"
#include "executor/engine.hpp"
#include "plan/plan_access.hpp"

namespace terrace::detail {

struct planned_ranks;

/// The implementation of a communicator: owns its parts and starts its calls.
class [[gnu::visibility("hidden")]] communicator_core final {
public:
    /// @param with its plan is the same on all ranks, which the caller ensures
    /// @param device the device for device buffers, if there is one
    /// @throws plan_error, usage_error, transport_error, timeout_error
    communicator_core(planned_ranks with, options o, std::optional<device_setting> device = {});
    ~communicator_core();

    /// Starts a call, whose buffers may be on the host or on the device.
    /// @returns a request that is complete if the call is complete already
    request start(const full_call& c) {
        const auto held = hold();
        calls_->expect_unbroken(name_of(c.shape));
        return calls_->start(c);
    }
    /// Starts an alltoallv, gatherv or scatterv.
    request start(const uneven_blocks& b) {
        const auto held = hold();
        calls_->expect_unbroken(name_of(b));
        return calls_->start(b);
    }
    /// Starts a send or a receive. @param rank, source in the caller's rank numbering
    request send(const void* from, std::int64_t count, element_type type, int rank, int tag);
    request recv(void* to, std::int64_t count, element_type type, int source, int tag, received* result);
    /// Collects this thread's calls of host buffers until the matching group_end(), which starts them.
    /// @param number groups with numbers begin in the order of their numbers
    void group_start(std::optional<std::uint64_t> number = {}) {
        const auto held = hold();
        calls_->expect_unbroken("group_start");
        calls_->groups().start(number);
    }
    void group_end() {
        const auto held = hold();
        calls_->group_end();
    }

    /// @throws usage_error if the caller has a group open
    void expect_no_group(std::string_view call) {
        const auto held = hold();
        calls_->expect_no_group(call);
    }
    /// Completes all calls before a collective operation that makes no progress on calls. The caller holds the lock.
    void end_calls_for(const std::string& what);
    /// Ends all calls of this rank and breaks the communicator, so its destructor waits for no rank. Any thread may
    /// call this, without the lock.
    /// @param why text of the errors that calls then throw; a literal
    void abort(const char* why) noexcept {
        failure_.give_up(why);  // without the lock: a waiting thread may hold it, and then finds the failure
        if (calls_->device()) calls_->device()->abandon();
    }
    void set_timeout(std::chrono::duration<double> timeout);
    std::string transports() const;

    /// Takes the communicator's only lock, which guards all its parts.
    driver::lock hold() { return progress_->hold(); }
    const plan& planned() const noexcept { return plan_; }
    const options& settings() const noexcept { return options_; }
    const rank_numbers& ranks() const noexcept { return ranks_; }
    failure_state& failure() noexcept { return failure_; }
    call_admission& calls() noexcept { return *calls_; }
    endpoint& net() const noexcept { return *net_; }
    engine& running() noexcept { return *running_; }
    control_plane& control() noexcept { return *control_; }
    call_reports& reports() noexcept { return reports_; }

private:
    void expect_message(const char* what, const void* memory, std::int64_t count, int rank, int tag, bool any) const;

    plan plan_;
    options options_;
    rank_numbers ranks_;
    failure_state failure_;
    std::unique_ptr<call_admission> calls_;  // destroyed after net_, which may have messages of its programs in flight
    std::unique_ptr<endpoint> net_;
    call_reports reports_;
    std::unique_ptr<engine> running_;
    std::unique_ptr<control_plane> control_;
    std::unique_ptr<call_progress> progress_;
};

/// Lets other parts of Terrace make communicators and access their implementation.
struct communicator_access {
    static communicator make(std::unique_ptr<communicator_core> core) noexcept { return communicator(std::move(core)); }
    static communicator_core& core(communicator& comm) noexcept { return *comm.core_; }
};

/// Makes a communicator; the arguments are those of communicator_core.
template <class... Arguments>
communicator make_communicator(Arguments&&... arguments) {
    return communicator_access::make(std::make_unique<communicator_core>(std::forward<Arguments>(arguments)...));
}

/// Returns the implementation of a communicator.
inline communicator_core& core_of(communicator& comm) noexcept { return communicator_access::core(comm); }

/// Implements nccl::use_device: calls then accept buffers on a device. @param gpu null: that of the module
void use_device(communicator_core& on, int number, const gpu_runtime* gpu = nullptr);

/// Enqueues a call of device buffers behind the work in `stream`, and returns at once.
void enqueue(communicator_core& on, const full_call& c, CUstream_st* stream);

}  // namespace terrace::detail
