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
/// most members that the job may have. The members are the ranks of a communicator, which is created anew whenever they
/// change: each such *generation* is planned for the machine as it is then, and has connections of its own, so that no
/// message of an earlier one reaches it. Plans are kept for machines of the same shape and rates.
///
/// Work is done in *iterations*. An iteration ends on all members together, by a small allreduce, and either counts on
/// all of them or on none. Members join and leave between two iterations, at the same one for all.
///
/// Move-only; a moved-from job may only be assigned to or destroyed. Used by one thread at a time.
class TERRACE_API elastic {
public:
    /// Begins a job with the members 0 ... founders - 1, of which this process is one. Collective over these.
    /// @param in the store; its keys are shared by all members   @param o the same on all members, later ones too;
    /// failure_timeout above 0, and no plan_file
    /// @throws as ucx::create
    static elastic begin(const store& in, int founders, const options& o = {});
    /// Does the same in the directory of options::bootstrap; options::rank is the number, options::size the most.
    static elastic begin(int founders, const options& o);
    /// Joins a job that runs: waits until the members let this process in, for options::timeout at most. Its number
    /// is one that no member has. @throws timeout_error if no member has answered; as ucx::create
    static elastic join(const store& in, const options& o = {});
    static elastic join(const options& o);

    elastic(elastic&&) noexcept;
    elastic& operator=(elastic&&) noexcept;
    /// Leaves without a word to the others, for which it has failed if they wait for it: leave() first.
    ~elastic();

    /// Makes one iteration: calls `work`, which makes calls, and ends the iteration together with all members. Returns
    /// true if it counts, on all members; now is the time to use its results, as for the step of an optimiser. Returns
    /// false if it counts on none, because members have failed: what `work` has done is to be forgotten. In both cases
    /// the next iteration may have other members.
    ///
    /// First it lets members leave and join that are to, and then calls what on_change() has set if they have changed.
    /// @throws partitioned_error where the others may go on without this process; what `work` throws but
    /// rank_failed_error; usage_error if this process is no member
    bool iterate(const std::function<void(communicator&)>& work);
    /// Sets what is called before the first iteration and the first one after each change: makes the state of all
    /// members the same, as by a broadcast from rank 0. That is always one that has made all iterations that count.
    void on_change(std::function<void(communicator&)> synchronise);
    /// Asks to leave, which this process does before one of the next iterations: iterate() then calls nothing and
    /// returns false, and so does is_member().
    void leave();

    /// Returns false once this process has left.
    bool is_member() const noexcept;
    /// Returns the communicator of the members, which lives until they change. @throws usage_error if this is none
    communicator& comm();
    /// Returns the members' numbers, by rank. Ranks that stay keep their order, and those that join come behind them.
    const std::vector<int>& members() const noexcept;
    /// Returns how often the members have changed.
    std::uint64_t generation() const noexcept;
    /// Returns how many iterations count, those from before this process joined too: the same on all members.
    std::uint64_t iterations() const noexcept;

private:
    explicit elastic(std::unique_ptr<detail::elastic_core> core) noexcept;

    std::unique_ptr<detail::elastic_core> core_;
};

}  // namespace terrace
