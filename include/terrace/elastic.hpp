#pragma once

#include <terrace/export.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <terrace/communicator.hpp>
#include <terrace/store.hpp>

namespace terrace {

namespace detail {
class elastic_core;
}  // namespace detail

/// A job over UCX whose members change while it runs: processes leave, fail, and join. docs/guides/elastic.md.
///
/// A process has a *number*, 0 ... size - 1 (store::rank, store::size; TERRACE_RANK, TERRACE_SIZE), where `size` is the
/// largest number of members that the job may have. The members are the ranks of a communicator, which is created anew
/// at each change. Each such *generation* has a plan for the machine as it is then, and connections of its own, so it
/// receives no message of an earlier generation. Plans are reused for machines of the same shape and rates.
///
/// Work is done in *iterations*. All members end an iteration together, by a small allreduce. It counts on all members
/// or on none. Members join and leave between two iterations, at the same point on all members.
///
/// Move-only; a moved-from job may only be assigned to or destroyed. Only one thread at a time may use a job.
class TERRACE_API elastic {
public:
    /// Begins a job with the members 0 ... founders - 1; this process must be one of them. Collective over these.
    /// @param in the store; all members share its keys   @param o the same on all members, also those that join later;
    /// failure_timeout above 0, and no plan_file
    /// @throws as ucx::create; usage_error if `o` or `founders` does not allow it
    static elastic begin(const store& in, int founders, const options& o = {});
    /// Does the same in the directory of options::bootstrap, with options::rank as number and options::size as `size`.
    static elastic begin(int founders, const options& o);
    /// Joins a running job: waits until the members admit this process, at most for options::timeout. No member may
    /// have its number. @throws timeout_error if no member has answered; as ucx::create
    static elastic join(const store& in, const options& o = {});
    static elastic join(const options& o);

    elastic(elastic&&) noexcept;
    elastic& operator=(elastic&&) noexcept;
    /// Leaves the job without notifying the others. If they wait for this process, it has failed: leave() first.
    ~elastic();

    /// Runs one iteration: calls `work`, which makes calls, and ends the iteration together with all members. Returns
    /// true if the iteration counts, on all members: use its results now, as for the step of an optimiser. Returns
    /// false if it counts on none, because members have failed: discard the results of `work`. In both cases the next
    /// iteration may have other members.
    ///
    /// Before `work`, members leave and join that requested it; if any did, the function of on_change() is called.
    /// @throws partitioned_error if the others may go on without this process; exceptions of `work` except
    /// rank_failed_error; usage_error if this process is no member
    bool iterate(const std::function<void(communicator&)>& work);
    /// Sets a function that is called before the first iteration and the first one after each change. It makes the
    /// state of all members equal, as by a broadcast from rank 0, which has always made all iterations that count.
    void on_change(std::function<void(communicator&)> synchronise);
    /// Requests to leave. This process leaves before one of the next iterations: iterate() then calls nothing and
    /// returns false, and is_member() returns false.
    void leave();

    /// Returns false once this process has left.
    bool is_member() const noexcept;
    /// Returns the communicator of the members, valid until they change. @throws usage_error if this is no member
    communicator& comm();
    /// Returns the members' numbers, by rank. Ranks that stay keep their order; new members follow them.
    const std::vector<int>& members() const noexcept;
    /// Returns how often the members have changed.
    std::uint64_t generation() const noexcept;
    /// Returns how many iterations count, including those before this process joined: the same on all members.
    std::uint64_t iterations() const noexcept;

private:
    explicit elastic(std::unique_ptr<detail::elastic_core> core) noexcept;

    std::unique_ptr<detail::elastic_core> core_;
};

}  // namespace terrace
