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

/// The members of a generation, and the number of iterations that count.
struct elastic_members {
    std::vector<int> numbers;  ///< by rank
    std::uint64_t generation = 0, iterations = 0;
};

/// The generation that a process is invited to join.
struct elastic_invitation {
    std::string name;  ///< name of the generation
    elastic_members to;
};

/// The implementation of an elastic job.
///
/// Keys of the store. N is a process's number, T a random token that it chooses for each request to join:
///
///   join/N         T: the request of N to join       seen/T     a member has read the request
///   invite/T       the invitation                    ready/T    the process has read seen/T
///   members/G/...  keys of the bootstrap of G        outcome/G  whether all have made generation G
///
/// So members do not wait for a process that died after its request, or for keys that an earlier job left.
class elastic_core {
public:
    /// Implement elastic::begin() and elastic::join().
    elastic_core(store in, int founders, options o);
    elastic_core(store in, options o);

    bool iterate(const std::function<void(communicator&)>& work);
    void on_change(std::function<void(communicator&)> synchronise) { synchronise_ = std::move(synchronise); }
    void leave() noexcept { leaving_ = true; }
    communicator& comm();
    bool is_member() const noexcept { return comm_.has_value(); }
    const elastic_members& now() const noexcept { return now_; }

private:
    /// Changes of the members before the next iteration, the same on all members.
    struct change_of_members {
        std::set<int> leave;                // numbers of members that leave
        std::map<int, std::uint64_t> join;  // tokens of processes that join, by number
        bool empty() const noexcept { return leave.empty() && join.empty(); }
    };

    void expect_usable() const;
    communicator create(const elastic_invitation& next, const std::function<void()>& look);
    /// Returns the longest wait for others while a generation is made, and of a joining process for the outcome.
    std::chrono::duration<double> patience() const { return options_.failure_timeout + std::chrono::seconds(10); }

    std::optional<elastic_invitation> await_invitation(std::uint64_t token, std::chrono::duration<double> limit) const;
    bool accept(const elastic_invitation& i);

    /// Reads requests to join on rank 0, at intervals. If the process of a request has set ready/T, and is thus alive,
    /// sets `says` at its number to the token.
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
        // Tokens of requests: those that rank 0 has read, and those that are void, so their processes choose others.
        std::set<std::uint64_t> seen{}, refused{};
        std::chrono::steady_clock::time_point next_look{};
    } requests_;
    std::function<void(communicator&)> synchronise_;
    bool changed_ = true;  // members have changed since the last call of synchronise_
    bool leaving_ = false;
    change_of_members due_;
};

/// Returns the store that options::bootstrap, `rank` and `size` describe. @throws usage_error, transport_error
store store_of(const options& o);

/// Creates a communicator over UCX of the ranks of a store, with a plan for the present machine. Collective over them.
/// @param in a store whose keys no other generation uses   @param timeout longest wait for another rank at creation
/// @param look called while this rank waits; may throw   @param kept plans made earlier, to which the plan is added
/// @throws as ucx::create, and exceptions of `look`
communicator create_generation(const store& in, std::chrono::duration<double> timeout,
                               const std::function<void()>& look, const options& o, kept_plans& kept);

}  // namespace terrace::detail
