#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "transport/nccl/device_queues.hpp"
#include "transport/team.hpp"

namespace terrace::detail {

/// A call that is being enqueued.
struct issued_call {
    std::uint64_t number = 0;
    bool captured = false;  ///< the call is captured into a graph
};

/// Runs an action that may fail on one rank alone. If it fails on any rank, all ranks throw. Collective.
/// @throws transport_error naming the rank, timeout_error
void on_all_ranks(team& ranks, const std::function<std::optional<transport_fault>()>& action);

/// The NCCL communicators of one device, made by a bootstrap and used in the order of issue. Every rank issues the same
/// operations in the same order, and each communicator runs them in this order, whatever their queues. NCCL keeps this
/// order between communicators as well (NCCL_LAUNCH_ORDER_IMPLICIT, from NCCL 2.26 on), so no two of them wait for each
/// other. Not thread-safe: its owner holds a lock.
class nccl_comms {
public:
    struct communicator {
        std::shared_ptr<nccl_comm> comm;
        gpu_event last = nullptr;  // recorded after the last operation
        int queue = -1;            // queue of this operation; -1: none
        issued_call call;          // call of this operation
    };
    using disjoint_groups = std::vector<std::vector<int>>;

    /// @param timeout longest wait for other ranks; 0: no limit
    nccl_comms(device_queues& on, std::chrono::duration<double> timeout) : on_(on), timeout_(timeout) {}
    /// Collective, unless communicators were aborted. Waits some seconds for communicators that a graph still uses, and
    /// then leaves them to a thread that ends with the graph.
    ~nccl_comms();

    /// Makes `count` communicators of all ranks. Collective. @throws as on_all_ranks
    void connect(team& ranks, int count);
    /// Makes a communicator for the group of this rank, if it is in one. Returns the failure, if any. Collective.
    std::optional<transport_fault> join(const disjoint_groups& groups);
    /// Returns the groups that have a communicator.
    const std::shared_ptr<const std::set<std::vector<int>>>& groups() const noexcept { return groups_; }
    /// Ends all operations in flight, without waiting for other ranks. A separate thread waits for NCCL.
    void abort() noexcept;
    /// Records that a graph uses the communicators, so NCCL may keep them until the graph is destroyed.
    void captured() noexcept { captured_ = true; }
    /// Returns the first error that a communicator reports.
    std::optional<transport_fault> find_fault() const noexcept;

    /// Returns the communicator of all ranks for a stage; the last one for stages beyond the number of communicators.
    communicator& of_stage(int stage) noexcept;
    communicator& of_group(const std::vector<int>& members) noexcept { return of_group_.find(members)->second; }

    // These surround every operation on a communicator. claim() makes the queue wait for the communicator's last
    // operation; leave() records that this one follows.
    void claim(communicator& c, int queue, const issued_call& call) noexcept;
    void leave(communicator& c, int queue, const issued_call& call) noexcept;
    /// Latches a failure if a function of NCCL returned an error.
    void check(const char* call, int code) noexcept;

private:
    // NCCL writes a handle when the communicator is made, which may be after make() has given up.
    using handle = std::shared_ptr<nccl_comm>;
    using action = std::function<void(const std::vector<nccl_comm>&)>;

    template <class Start>
    std::optional<transport_fault> make(communicator& c, const char* call, Start start);
    std::optional<transport_fault> split(communicator& c, int color, int key);
    transport_fault late_fault(const char* call) const;
    int settled(nccl_comm comm) const noexcept;
    void reclaim(action how) noexcept;

    device_queues& on_;
    const std::chrono::duration<double> timeout_;
    int rank_ = 0;
    bool captured_ = false;
    std::vector<handle> comms_;      // all that have not been given to reclaim()
    std::future<void> reclaimed_;    // ready when the last reclaim() is done
    std::vector<gpu_event> events_;  // of communicators
    std::vector<communicator> of_all_;
    std::map<std::vector<int>, communicator> of_group_;
    std::shared_ptr<const std::set<std::vector<int>>> groups_ = std::make_shared<std::set<std::vector<int>>>();
};

}  // namespace terrace::detail
