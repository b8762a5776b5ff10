#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <terrace/communicator.hpp>

#include "api/driver.hpp"
#include "api/wait_monitor.hpp"
#include "calls/binding.hpp"
#include "calls/call_groups.hpp"
#include "calls/call_queue.hpp"
#include "calls/call_runner.hpp"
#include "calls/call_times.hpp"
#include "calls/callbacks.hpp"
#include "calls/calls_in_flight.hpp"
#include "calls/device/device_calls.hpp"
#include "calls/failure_state.hpp"
#include "control/call_order/call_check.hpp"
#include "control/membership/failure_watch.hpp"
#include "control/messages/point_to_point.hpp"
#include "executor/engine.hpp"
#include "plan/plan_data.hpp"
#include "statistics/metrics_file.hpp"
#include "statistics/statistics_file.hpp"

namespace terrace::detail {

/// The implementation of a communicator: its plan, its transport, and the calls in flight.
class [[gnu::visibility("hidden")]] communicator_core final : public calls_in_flight {
public:
    /// @param p the same plan on all ranks, which the maker of `by` has made sure of
    /// @param rank of this process, in the caller's numbering
    /// @param device the device for device buffers, if there is one
    /// @throws plan_error; with a device transport_error and timeout_error as well
    communicator_core(const plan& p, connection by, int rank, options o, std::optional<device_setting> device = {});
    ~communicator_core();

    /// Starts a call, whose buffers may be on the host or on the device.
    /// @param factor of this rank's elements, of premul_sum
    /// @param rounding_errors communicator::allreduce_async; null: nobody asks
    /// @returns a request that is complete if the call is complete already
    request start(const call_shape& call, const void* send, void* recv, double factor = 1,
                  void* rounding_errors = nullptr);
    /// Enqueues a call of device buffers behind the work in `stream`, and returns.
    void enqueue(const call_shape& call, const void* send, void* recv, CUstream_st* stream);
    /// Waits for all calls that were enqueued.
    void synchronize();
    /// Lets device buffers be on a device: nccl::use_device. @param gpu null: of the module
    void use_device(int number, const gpu_runtime* gpu = nullptr);
    /// Returns the stream of calls of device buffers that have none. @throws usage_error without a device
    CUstream_st* device_stream();
    /// Makes a call and waits for it.
    void run(const call_shape& call, const void* send, void* recv, double factor = 1);
    /// Makes an alltoallv, gatherv or scatterv, and waits for it.
    void run(const uneven_blocks& b);
    /// Starts the same.
    request start(const uneven_blocks& b);
    /// Starts a message. @param rank, source in the caller's numbering
    request send(const void* from, std::int64_t count, element_type type, int rank, int tag);
    request recv(void* to, std::int64_t count, element_type type, int source, int tag, received* result);
    /// Collects the host's calls that this thread starts until the matching group_end(), which starts them.
    /// @param number in the order of which groups begin
    void group_start(std::optional<std::uint64_t> number = {});
    void group_end();
    bool test(std::uint64_t call) override;
    void wait(std::uint64_t call) override;
    void then(std::uint64_t call, callback f) override;
    /// Allocates memory for windows; null for a count of 0. Collective.
    std::shared_ptr<std::byte> allocate(std::size_t count, std::size_t element);
    /// Returns the communicator of the ranks with this color; null where the color is negative. Collective.
    std::unique_ptr<communicator_core> split(int color, int key);
    /// Returns the communicator of the ranks on this rank's machine node. Collective.
    std::unique_ptr<communicator_core> split_by_node(int key);
    /// Returns the communicator of the ranks that have not failed. Collective over these, after rank_failed_error.
    std::unique_ptr<communicator_core> shrink();
    /// Lets all ranks make something together that this communicator gives way to, such as one of other ranks. Waits
    /// until all have, and returns true if so; the caller then goes on with that. Returns false on all ranks if any has
    /// not, and this communicator is as before. Collective. @param make gets what it must call while it waits, which
    /// may throw   @throws rank_failed_error on all ranks if ranks of this communicator have failed meanwhile
    bool all_make(const std::function<void(const std::function<void()>& look)>& make);
    /// Breaks it, so that destroying it waits for nobody. Any thread, without the lock.
    void give_up_creation() noexcept { failure_.give_up("another rank has failed while this one was created"); }
    /// Ends its calls on this rank: communicator::abort. Any thread, without the lock.
    void abort() noexcept;
    std::string shape(std::int64_t bytes) const;
    double predicted(collective what, std::int64_t bytes) const;
    void keep_programs(int shapes);
    statistics counted();
    /// Returns the same with ranks of the whole job, and what tells this rank from others.
    rank_statistics counted_in_job();
    void set_timeout(std::chrono::duration<double> timeout);
    bool is_traced() const noexcept { return events_.keeps_everything(); }
    void trace(traced_span span);
    std::string transports() const;
    int rank() const noexcept { return rank_; }
    int size() const noexcept { return net_->size(); }

private:
    // Requests of calls carry the engine's numbers; those of messages and of tickets have a bit more.
    static constexpr std::uint64_t message_bit = std::uint64_t{1} << 63, ticket_bit = std::uint64_t{1} << 62;

    void gather_callers_ranks();
    statistics count(const std::vector<int>& callers_rank);
    rank_statistics count_in_job();
    void write_statistics_file();
    void write_metrics(bool ends);
    std::unique_ptr<driver> make_driver();
    // Takes the one lock, which guards all members and services. Empty where only one thread makes calls and none
    // drives them: options::threads and options::progress_thread.
    driver::lock hold() { return driver_ ? driver_->hold() : driver::lock{}; }

    request start_checked(const call_shape& call, const call_buffers& b, double factor);
    std::uint64_t start_on_device(const call_shape& call, const void* send, void* recv, CUstream_st* stream,
                                  double factor);
    void check_call(const call_shape& call, std::uint64_t signature, const void* send, const void* recv,
                    std::string objection = {});
    request start_later(const call_shape& call, const call_buffers& b, double factor);
    request add_to_group(open_group & group, const call_shape& call, const call_buffers& b, double factor);
    std::uint64_t join_group(open_group & group, const call_shape& call, const call_buffers& b);
    void begin_in_order(const std::vector<std::uint64_t>& calls);
    void begun();
    void expect_no_group(std::string_view call);
    void expect_begun(std::uint64_t call);
    int plan_rank_of(int callers_rank) const noexcept;
    request message_begun(std::uint64_t message);
    void expect_message(const char* what, const void* memory, std::int64_t count, int rank, int tag, bool any) const;
    bool done(std::uint64_t call) const noexcept;
    void conclude(std::uint64_t call);
    void finish(driver::lock & held, std::uint64_t call);
    void call_back(driver::lock & held);
    std::exception_ptr error_of(std::uint64_t call);
    void make(const callback& f, const std::exception_ptr& error) const;
    void drop_callbacks();
    void expect_unbroken(std::string_view what) const;
    void expect_device(std::string_view what) const;
    void end_calls_for(const std::string& what);
    std::unique_ptr<communicator_core> part_of(int color, int key);
    void agree_on_survivors();
    void expect_majority() const;
    std::unique_ptr<communicator_core> of_survivors();

    bool progress();
    bool step();
    bool move_along();
    bool quiet() const noexcept;
    void deliver_copies() noexcept;
    void look_around();
    template <class Done>
    void drive_until(Done done);
    void wait_a_moment();

    plan plan_;
    int rank_;
    std::vector<int> callers_rank_;  // by rank of the plan
    std::vector<int> world_ranks_;   // by the caller's numbering
    std::string id_;                 // of the communicator: of all that the jobs of a directory make
    binding binding_;
    options options_;
    std::unique_ptr<call_runner> runner_;  // before net_, which may have messages of its programs in flight
    std::unique_ptr<endpoint> net_;
    std::unique_ptr<control_router> router_;
    recorder events_;
    std::unique_ptr<engine> engine_;
    std::unique_ptr<point_to_point> messages_;
    std::unique_ptr<wait_chain> chain_;
    std::unique_ptr<failure_watch> failures_;
    std::unique_ptr<call_check> check_;
    std::unique_ptr<wait_monitor> monitor_;
    std::optional<device_setting> device_;
    std::unique_ptr<device_calls> device_calls_;
    std::unique_ptr<call_queue> calls_;  // that do not begin when they are made
    call_groups groups_;
    callbacks callbacks_;
    std::unique_ptr<driver> driver_;
    std::unique_ptr<call_times> times_;  // null: nobody asks
    failure_state failure_;
    bool survivors_agree_ = false;  // in all_make()
};

// The caller holds the lock throughout, so that no other thread begins a call meanwhile.
template <class Done>
void communicator_core::drive_until(Done done) {
    for (waiter w; !done();) {
        failure_.rethrow();
        if (w.should_yield(progress(), net_->spin_limit())) wait_a_moment();
    }
}

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

}  // namespace terrace::detail
