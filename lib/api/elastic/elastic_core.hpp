#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <terrace/communicator.hpp>
#include <terrace/store.hpp>

#include "api/creation/plan_cache.hpp"

namespace terrace::detail {

/// The members of a generation, and how far they are.
struct elastic_members {
    std::vector<int> numbers;  ///< by rank
    std::uint64_t generation = 0, iterations = 0;
};

/// What a process joins.
struct elastic_invitation {
    std::string name;  ///< of the generation
    elastic_members to;
};

/// The implementation of an elastic job.
///
/// Keys of the store, where N is a number and T a random one that a process chooses each time it asks to join:
///
///   join/N        T: N asks to join                  seen/T, ready/T   a member has seen it; the process has seen that
///   invite/T      what it joins: an invitation       outcome/G         whether all have made generation G
///   members/G/... keys of the meeting of G
///
/// So nobody waits for a process that has asked and died, or for what a former job has left.
class elastic_core {
public:
    /// begin() and join() of an elastic job.
    elastic_core(store in, int founders, options o);
    elastic_core(store in, options o);

    bool iterate(const std::function<void(communicator&)>& work);
    void on_change(std::function<void(communicator&)> synchronise) { synchronise_ = std::move(synchronise); }
    void leave() noexcept { leaving_ = true; }
    communicator& comm();
    bool is_member() const noexcept { return comm_.has_value(); }
    const elastic_members& now() const noexcept { return now_; }

private:
    /// What is to change before the next iteration: the same on all members.
    struct change_of_members {
        std::set<int> leave;                // numbers
        std::map<int, std::uint64_t> join;  // what each has chosen, by number
        bool empty() const noexcept { return leave.empty() && join.empty(); }
    };

    void expect_usable() const;
    communicator create(const elastic_invitation& next, const std::function<void()>& look);
    /// The longest wait for another process while a generation is made, and of one that joins for its outcome.
    std::chrono::duration<double> patience() const { return options_.failure_timeout + std::chrono::seconds(10); }

    std::optional<elastic_invitation> await_invitation(std::uint64_t token, std::chrono::duration<double> limit) const;
    bool accept(const elastic_invitation& i);

    /// On rank 0: looks whether any ask to join, from time to time. Sets what those say, by number, who have answered:
    /// so they are known to be there.
    void look_for_requests(std::vector<std::uint64_t>& says);
    void end_iteration();
    void change();
    elastic_invitation agree_on_next(const change_of_members& due);
    void recover();
    void compare_counts();

    const store in_;
    const options options_;
    kept_plans plans_;
    std::optional<communicator> comm_;
    elastic_members now_;
    struct {
        // What those have chosen who asked to join: rank 0 has seen it; it counts no more, and they choose another.
        std::set<std::uint64_t> seen{}, refused{};
        std::chrono::steady_clock::time_point next_look{};
    } requests_;
    std::function<void(communicator&)> synchronise_;
    bool changed_ = true;  // since synchronise_ was called
    bool leaving_ = false;
    change_of_members due_;
};

/// Returns the store that options name: options::bootstrap, `rank` and `size`. @throws usage_error, transport_error
store store_of(const options& o);

/// Creates a communicator over UCX of the ranks of a store. The job is planned as it is then. Collective over them.
/// @param in whose keys no other generation has   @param timeout longest wait for another rank while it is created
/// @param look called while this rank waits; may throw   @param kept finds plans, and takes them
/// @throws as ucx::create, and what `look` throws
communicator create_generation(const store& in, std::chrono::duration<double> timeout,
                               const std::function<void()>& look, const options& o, kept_plans& kept);

}  // namespace terrace::detail
