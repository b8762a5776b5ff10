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

/// The implementation of a communicator: owns what it consists of, and starts its calls.
class [[gnu::visibility("hidden")]] communicator_core final {
public:
    /// @param with the same plan on all ranks, which its maker has made sure of
    /// @param device the device for device buffers, if there is one
    /// @throws plan_error; with a device transport_error and timeout_error as well
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
    /// Starts a message. @param rank, source in the caller's numbering
    request send(const void* from, std::int64_t count, element_type type, int rank, int tag);
    request recv(void* to, std::int64_t count, element_type type, int source, int tag, received* result);
    /// Collects the host's calls that this thread starts until the matching group_end(), which starts them.
    /// @param number in the order of which groups begin
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
    /// Completes all calls before a collective operation that does not move calls along. The caller holds the lock.
    void end_calls_for(const std::string& what);
    /// Ends its calls on this rank, and breaks it, so that destroying it waits for nobody. Any thread, without the
    /// lock.
    /// @param why what calls throw; a literal
    void abort(const char* why) noexcept {
        failure_.give_up(why);  // without the lock: a thread that waits for a call may hold it, and sees the mark
        if (calls_->device()) calls_->device()->abandon();
    }
    void set_timeout(std::chrono::duration<double> timeout);
    std::string transports() const;

    /// Takes the one lock, which guards all that it consists of.
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
    std::unique_ptr<call_admission> calls_;  // before net_, which may have messages of its programs in flight
    std::unique_ptr<endpoint> net_;
    call_reports reports_;
    std::unique_ptr<engine> running_;
    std::unique_ptr<control_plane> control_;
    std::unique_ptr<call_progress> progress_;
};

/// Lets Terrace's own parts make communicators and look into them.
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

/// Lets device buffers be on a device: nccl::use_device. @param gpu null: of the module
void use_device(communicator_core& on, int number, const gpu_runtime* gpu = nullptr);

/// Enqueues a call of device buffers behind the work in `stream`, and returns.
void enqueue(communicator_core& on, const full_call& c, CUstream_st* stream);

}  // namespace terrace::detail
