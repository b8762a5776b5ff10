#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace terrace::detail {

inline constexpr std::size_t max_hosts = 250'000;

/// Returns the name of this host; empty if the system does not provide the name.
std::string host_name();

/// Returns the names in a host list in the format of Slurm, in order: "tux[0-3,7],login" is tux0 tux1 tux2 tux3 tux7
/// login. The numbers of a range have at least as many digits as its first. @throws usage_error that describes the
/// error in the list, also if the list has more than `most` names
std::vector<std::string> expand_hosts(std::string_view list, std::size_t most = max_hosts);

/// Returns a host list that expands to `names`.
std::string fold_hosts(std::span<const std::string> names);

/// Finds the hosts of a machine or plan by name. A name means the host with the same name. Otherwise it means the only
/// host with the same name up to the first dot, if one of both names ends there. Addresses are never shortened.
class host_index {
public:
    /// @param hosts different names, which outlive the index   @param owner of the hosts, for messages: "the plan's"
    host_index(std::span<const std::string> hosts, std::string owner);
    /// @returns the host's number   @throws usage_error if the name means no host, or may mean several
    std::size_t find(std::string_view name) const;

private:
    std::span<const std::string> hosts_;
    std::string owner_;
    std::unordered_map<std::string_view, std::size_t> by_name_;
    std::unordered_multimap<std::string_view, std::size_t> by_short_name_;  // only names with a domain
};

}  // namespace terrace::detail
