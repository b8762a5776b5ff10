#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace terrace {

inline constexpr std::size_t max_hosts = 250'000;

/// The names in a host list as Slurm writes them, in order: "tux[0-3,7],login" is tux0 tux1 tux2 tux3 tux7 login. The
/// numbers of a range have at least as many digits as its first. @throws usage_error saying what is wrong with the
/// list, also if it has more than `most` names
std::vector<std::string> expand_hosts(std::string_view list, std::size_t most = max_hosts);

/// A host's name up to the first dot.
std::string_view short_name(std::string_view host) noexcept;

/// A host list that expands to `names`.
std::string fold_hosts(std::span<const std::string> names);

}  // namespace terrace
