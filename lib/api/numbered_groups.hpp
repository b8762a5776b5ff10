#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "api/call_group.hpp"
#include "executor/engine.hpp"

namespace terrace::detail {

/// Groups of calls that begin in the order of numbers, 0, 1, 2, ..., in whatever order this rank's threads make them.
class numbered_groups {
public:
    /// A number is in use from here on. @throws usage_error if it is already
    void open(std::uint64_t number);
    /// The group's calls may begin once the groups before it have begun.
    void end(std::uint64_t number, std::vector<waiting_start> calls) { groups_.at(number) = std::move(calls); }
    /// Removes the next group and returns its calls; nothing while it has not ended.
    std::optional<std::vector<waiting_start>> next();

    /// Returns how long ago this was first asked of the group whose turn it is, while others wait for it; else 0.
    std::chrono::duration<double> age() noexcept;
    /// Adds what groups that have ended wait for.
    void add_waits(waiting& all) const;

private:
    bool waits() const noexcept;

    std::uint64_t next_ = 0;
    std::map<std::uint64_t, std::optional<std::vector<waiting_start>>> groups_;  // null: open
    std::optional<std::chrono::steady_clock::time_point> since_;
};

}  // namespace terrace::detail
