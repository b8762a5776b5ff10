#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <terrace/communicator.hpp>

#include "api/binding.hpp"
#include "api/call_check.hpp"
#include "api/calls_in_flight.hpp"
#include "api/device_calls.hpp"
#include "api/failure_state.hpp"
#include "api/program_cache.hpp"
#include "api/progress_thread.hpp"
#include "api/wait_monitor.hpp"
#include "executor/engine.hpp"
#include "plan/plan_data.hpp"

namespace terrace::detail {

/// Buffers and counts of blocks of any lengths, by address; of gatherv what is received, of scatterv what is sent and
/// recv.
struct uneven_blocks {
    const void* send = nullptr;
    std::span<const std::int64_t> send_counts;
    void* recv = nullptr;
    std::int64_t capacity = 0;  ///< elements of recv
    std::span<std::int64_t> recv_counts;
    std::int64_t most = 0;  ///< elements of the longest block
    element_type type = element_type::uint8;
};

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
    /// @returns a request that is complete if the call is complete already
    request start(const call_shape& call, const void* send, void* recv, double factor = 1);
    /// Enqueues a call of device buffers behind the work in `stream`, and returns.
    void enqueue(const call_shape& call, const void* send, void* recv, CUstream_st* stream);
    /// Waits for all calls that were enqueued.
    void synchronize();
    /// Makes a call and waits for it.
    void run(const call_shape& call, const void* send, void* recv, double factor = 1);
    /// Makes an alltoallv, and waits for it.
    void alltoallv(const uneven_blocks& b);
    /// Makes a gatherv and waits for it. @param recv_counts on the root
    void gatherv(const void* send, std::int64_t count, const uneven_blocks& b, int root);
    /// Makes a scatterv and waits for it. @returns the elements that came
    std::int64_t scatterv(const uneven_blocks& b, int root);
    bool test(std::uint64_t call) override;
    void wait(std::uint64_t call) override;
    /// Allocates memory for windows; null for a count of 0. Collective.
    std::shared_ptr<std::byte> allocate(std::size_t count, std::size_t element);
    /// Returns the communicator of the ranks with this color; null where the color is negative. Collective.
    std::unique_ptr<communicator_core> split(int color, int key);
    /// Returns the communicator of the ranks on this rank's machine node. Collective.
    std::unique_ptr<communicator_core> split_by_node(int key);
    std::string shape(std::int64_t bytes) const;
    double predicted(std::int64_t bytes) const;
    bool is_traced() const noexcept { return events_.keeps_everything(); }
    void trace(traced_span span);
    std::string transports() const;
    int rank() const noexcept { return rank_; }
    int size() const noexcept { return net_->size(); }

private:
    using programs = program_cache<program>;

    void gather_callers_ranks();
    std::unique_ptr<progress_thread> make_thread();
    progress_thread::lock hold();
    const void* multiplied(programs::entry & by, const void* send, void* recv, double factor);

    std::uint64_t start_on_device(const call_shape& call, const void* send, void* recv, CUstream_st* stream,
                                  double factor);
    void check_call(const call_shape& call, std::uint64_t signature, const void* send, const void* recv,
                    std::string objection = {});
    std::string objection_to_blocks(const uneven_blocks& b) const;
    void run_behind_lengths(const uneven_blocks& b, std::int64_t slot);
    void run_straight(const uneven_blocks& b, std::string_view name);
    void refuse(const call_shape& call, std::string objection);
    void expect_unbroken(std::string_view what) const;
    void end_calls_for(const std::string& what);
    std::unique_ptr<communicator_core> part_of(int color, int key);

    bool reachable(const call_shape& call, const void* send, const void* recv) const noexcept;
    programs::entry* find_idle(const call_shape& call, bool reachable) noexcept;
    programs::entry& bind_new(const call_shape& call, std::uint64_t signature, bool reachable);
    program bind(const call_shape& call, bool reachable);
    bool streams(const call_shape& call) const;
    bool fits_slot(std::int64_t count, const call_shape& call) const;

    bool progress();
    void look_around();
    void finish(std::uint64_t call);
    template <class Action>
    void or_fail(Action action);

    plan plan_;
    int rank_;
    std::vector<int> callers_rank_;  // by rank of the plan
    binding binding_;
    options options_;
    programs programs_;  // before net_, which may have messages of theirs in flight
    std::unique_ptr<endpoint> net_;
    recorder events_;
    std::unique_ptr<engine> engine_;
    std::unique_ptr<wait_chain> chain_;
    std::unique_ptr<call_check> check_;
    std::unique_ptr<wait_monitor> monitor_;
    std::optional<device_setting> device_;
    std::unique_ptr<device_calls> device_calls_;
    std::unique_ptr<progress_thread> thread_;
    failure_state failure_;
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

}  // namespace terrace::detail
