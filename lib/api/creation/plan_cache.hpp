#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// Plans made by programs at their start, kept in a directory for later starts: options::plan_cache. A plan is found by
/// the shape and rates of its machine, without names of hosts, and by the version of Terrace. Files are written
/// atomically, so jobs may share a directory. If a file cannot be read, or is of another machine, a new plan is made.
class plan_cache {
public:
    /// @param most number of plans that are kept; the least recently used are removed
    explicit plan_cache(std::filesystem::path directory, std::size_t most = 64)
        : directory_(std::move(directory)), most_(most) {}

    /// Returns the kept plan for the machine. If there is none, calls `make` and keeps its plan.
    /// @param warn receives the reason if a plan cannot be kept
    plan_data find_or_make(const std::string& name, const hierarchy& machine, const std::function<plan_data()>& make,
                           const std::function<void(std::string_view)>& warn) const;

private:
    void remove_unused() const;

    std::filesystem::path directory_;
    std::size_t most_;
};

/// Plans that a program has made, by all inputs of planning except names.
class kept_plans {
public:
    /// Returns the plan for a machine of this shape and these rates; nothing if there is none.
    std::optional<plan_data> find(const std::string& name, const hierarchy& machine) const;
    void keep(const plan_data& plan);

private:
    std::map<std::string, plan_data> plans_;
};

}  // namespace terrace::detail
