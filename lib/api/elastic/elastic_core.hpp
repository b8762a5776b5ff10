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
    elastic_core(const elastic_core&) = delete;
    elastic_core& operator=(const elastic_core&) = delete;
    ~elastic_core();

    bool iterate(const std::function<void(communicator&)>& work);
    void on_change(std::function<void(communicator&)> synchronise) { synchronise_ = std::move(synchronise); }
    void leave() noexcept { leaving_ = true; }
    communicator& comm();
    bool is_member() const noexcept { return comm_.has_value(); }
    const std::vector<int>& members() const noexcept { return members_; }
    std::uint64_t generation() const noexcept { return generation_; }
    std::uint64_t iterations() const noexcept { return iterations_; }

private:
    using clock = std::chrono::steady_clock;
    /// What is to change before the next iteration: the same on all members.
    struct change_of_members {
        std::set<int> leave;                // numbers
        std::map<int, std::uint64_t> join;  // what each has chosen, by number
        bool empty() const noexcept { return leave.empty() && join.empty(); }
    };
    struct invitation {
        std::string name;  // of the generation
        std::uint64_t generation = 0, iterations = 0;
        std::vector<int> members;
    };

    // What a member says at the end of an iteration, by number; what those who ask to join have chosen is larger.
    static constexpr std::uint64_t stays = 0, leaves = 1;
    static constexpr const char* given_up_text = "given up";

    static std::string outcome_of(const std::string& generation) { return "outcome/" + generation; }
    static std::string text_of(const invitation& i);
    static invitation invitation_in(const std::string& text);

    void expect_usable() const;
    communicator create(const invitation& next, std::function<void()> look);
    /// The longest wait for another process while a generation is made, and of one that joins for its outcome.
    std::chrono::duration<double> patience() const { return options_.failure_timeout + std::chrono::seconds(10); }

    // elastic_join.cpp
    static std::uint64_t new_token();
    std::optional<invitation> await_invitation(std::uint64_t token, std::chrono::duration<double> limit) const;
    bool accept(const invitation& i);
    void look_for_requests(std::vector<std::uint64_t>& says);

    void end_iteration();
    void change();
    invitation agree_on_next(const change_of_members& due);
    void recover();
    void compare_counts();

    const store in_;
    const options options_;
    kept_plans plans_;
    std::optional<communicator> comm_;
    std::vector<int> members_;  // numbers, by rank
    std::uint64_t generation_ = 0, iterations_ = 0;
    std::function<void(communicator&)> synchronise_;
    bool changed_ = true;  // since synchronise_ was called
    bool leaving_ = false;
    change_of_members due_;
    std::set<std::uint64_t> seen_, refused_;  // what those have chosen who asked to join
    clock::time_point next_look_{};
};

}  // namespace terrace::detail
