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

/// Plans that programs made when they started, kept in a directory for the next start: options::plan_cache. A plan is
/// found again by the shape and the rates of its machine, whatever the names of its hosts, and by the version of
/// Terrace. Files appear whole or not at all, so that jobs may share a directory. A file that cannot be read, or is of
/// another machine, is made anew.
class plan_cache {
public:
    /// @param most plans that are kept: of more, those whose last use is longest ago are removed
    explicit plan_cache(std::filesystem::path directory, std::size_t most = 64)
        : directory_(std::move(directory)), most_(most) {}

    /// Returns the kept plan for the machine, or else what `make` returns, which is then kept.
    /// @param warn receives why a plan could not be kept
    plan_data find_or_make(const std::string& name, const hierarchy& machine, const std::function<plan_data()>& make,
                           const std::function<void(std::string_view)>& warn) const;

private:
    void remove_unused() const;

    std::filesystem::path directory_;
    std::size_t most_;
};

/// Plans that a program has made, by all that they depend on but the names of hosts.
class kept_plans {
public:
    /// Returns the plan for a machine of this shape and these rates; nothing where there is none.
    std::optional<plan_data> find(const std::string& name, const hierarchy& machine) const;
    void keep(const plan_data& plan);

private:
    std::map<std::string, plan_data> plans_;
};

}  // namespace terrace::detail
