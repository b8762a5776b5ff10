#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/team.hpp"

namespace terrace::detail {

/// Memory of which each of some ranks has one part, and which all of them can access. Copies share the memory.
struct shared_region {
    std::size_t bytes = 0;          ///< size of one part
    std::vector<std::byte*> parts;  ///< addresses in this process, by position among the ranks; on cache lines, zeroed
    std::shared_ptr<void> keep;     ///< keeps the parts valid
    /// Allocates memory for bytes of this rank's own part, before any rank touches them. Returns 0, or an error of
    /// errno(3). Null: all bytes have memory.
    std::function<int(std::size_t begin, std::size_t bytes)> take{};
};

/// Allocates memory that ranks of one machine node share. Optional: without it all stages are messages.
class region_source {
public:
    virtual ~region_source() = default;

    /// Allocates memory for `sharers`, ranks of the team on one node, including this rank; `bytes` for each, the same
    /// everywhere. Collective over the team; each rank passes the list that contains it. Returns nothing if some node
    /// cannot share memory, or has too little of it now. @throws transport_error
    /// @param at_once bytes of each part that have memory at once; shared_region::take allocates the rest
    virtual std::optional<shared_region> share(team& ranks, std::span<const int> sharers, std::size_t bytes,
                                               std::size_t at_once) = 0;
    std::optional<shared_region> share(team& ranks, std::span<const int> sharers, std::size_t bytes) {
        return share(ranks, sharers, bytes, bytes);
    }
};

/// Files in /dev/shm, for ranks that are processes. They have no names, so no file is left however the processes end. A
/// file has a name only if a process cannot open it otherwise: docs/explanation/shared-memory.md.
class posix_regions final : public region_source {
public:
    /// @param warn receives a line if memory cannot be shared, on one rank; may be null
    explicit posix_regions(std::function<void(std::string_view)> warn = nullptr) : warn_(std::move(warn)) {}

    using region_source::share;
    std::optional<shared_region> share(team& ranks, std::span<const int> sharers, std::size_t bytes,
                                       std::size_t at_once) override;

private:
    const std::function<void(std::string_view)> warn_;
};

}  // namespace terrace::detail
