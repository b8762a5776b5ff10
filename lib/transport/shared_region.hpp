#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/team.hpp"

namespace terrace::detail {

/// Memory that each of some ranks has a part of and all can reach. Copies share it.
struct shared_region {
    std::size_t bytes = 0;          ///< of one part
    std::vector<std::byte*> parts;  ///< by position among the ranks, as this process sees them; on cache lines, zeroed
    std::shared_ptr<void> keep;     ///< parts are valid as long as this
};

/// Allocates memory that ranks of one machine node share. Optional: without it all stages are messages.
class region_source {
public:
    virtual ~region_source() = default;

    /// Allocates memory for `sharers`, ranks of the team that are on one node, this rank among them; `bytes` for each,
    /// the same everywhere. Collective over the team, each rank with the list it is in. Returns nothing where memory
    /// cannot be shared on some node. @throws transport_error
    virtual std::optional<shared_region> share(team& ranks, std::span<const int> sharers, std::size_t bytes) = 0;
};

/// Shared memory of POSIX, for ranks that are processes. It has a name only until all have mapped it.
class posix_regions final : public region_source {
public:
    std::optional<shared_region> share(team& ranks, std::span<const int> sharers, std::size_t bytes) override;
};

}  // namespace terrace::detail
