#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "transport/nccl/device_queues.hpp"
#include "transport/team.hpp"

namespace terrace::detail {

/// A call that is being put into queues.
struct issued_call {
    std::uint64_t number = 0;
    bool captured = false;  ///< into a graph
};

/// Does on each rank something that may fail there alone. If it fails on one, all ranks throw. Collective.
/// @throws transport_error naming the rank, timeout_error
void on_all_ranks(team& ranks, const std::function<std::optional<transport_fault>()>& action);

/// The NCCL communicators of one device: made by a bootstrap, and used in the order of issue. Every rank issues the
/// same operations in the same order, and each communicator runs them in that order whatever their queues, so that no
/// two communicators wait for each other. Not thread-safe: its owner holds a lock.
class nccl_comms {
public:
    struct communicator {
        nccl_comm comm = nullptr;
        gpu_event last = nullptr;  // behind the last operation
        int queue = -1;            // of that
        issued_call call;          // that it was of
    };
    using disjoint_groups = std::vector<std::vector<int>>;

    /// @param timeout for other ranks; 0: none
    nccl_comms(device_queues& on, std::chrono::duration<double> timeout) : on_(on), timeout_(timeout) {}
    nccl_comms(const nccl_comms&) = delete;
    nccl_comms& operator=(const nccl_comms&) = delete;
    /// Collective, unless they have been aborted.
    ~nccl_comms();

    /// Makes `count` communicators of all ranks. Collective. @throws as on_all_ranks
    void connect(team& ranks, int count);
    /// Makes a communicator for the group that this rank is in, if it is in one. Collective over all ranks.
    std::optional<transport_fault> join(const disjoint_groups& groups);
    /// The groups that have one.
    const std::shared_ptr<const std::set<std::vector<int>>>& groups() const noexcept { return groups_; }
    /// Ends all operations in flight without waiting for other ranks.
    void abort() noexcept;
    /// Returns the first error that a communicator reports.
    std::optional<transport_fault> find_fault() const noexcept;

    /// The communicator of all ranks for a stage, or the last one for stages beyond those that there are.
    communicator& of_stage(int stage) noexcept;
    communicator& of_group(const std::vector<int>& members) noexcept { return of_group_.find(members)->second; }

    // Around every operation on a communicator: makes the queue wait for the communicator's last operation, and notes
    // that this one follows.
    void claim(communicator& c, int queue, const issued_call& call) noexcept;
    void leave(communicator& c, int queue, const issued_call& call) noexcept;
    /// Fails if a function of NCCL returned an error.
    void check(const char* call, int code) noexcept;

private:
    template <class Start>
    std::optional<transport_fault> make(communicator& c, const char* call, Start start);
    std::optional<transport_fault> split(communicator& c, int color, int key);
    transport_fault late_fault(const char* call) const;
    int settled(nccl_comm comm) const noexcept;

    device_queues& on_;
    const std::chrono::duration<double> timeout_;
    int rank_ = 0;
    std::vector<nccl_comm> comms_;   // all that have not been aborted
    std::vector<gpu_event> events_;  // of communicators
    std::vector<communicator> of_all_;
    std::map<std::vector<int>, communicator> of_group_;
    std::shared_ptr<const std::set<std::vector<int>>> groups_ = std::make_shared<std::set<std::vector<int>>>();
};

}  // namespace terrace::detail
