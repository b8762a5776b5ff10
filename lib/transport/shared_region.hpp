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

/// Memory that each of some ranks has a part of and all can reach. Copies share it.
struct shared_region {
    std::size_t bytes = 0;          ///< of one part
    std::vector<std::byte*> parts;  ///< by position among the ranks, as this process sees them; on cache lines, zeroed
    std::shared_ptr<void> keep;     ///< parts are valid as long as this
    /// Takes memory for bytes of this rank's own part, before anybody touches them. Returns 0, or an error of errno(3).
    /// Null: all bytes have memory.
    std::function<int(std::size_t begin, std::size_t bytes)> take{};
};

/// Allocates memory that ranks of one machine node share. Optional: without it all stages are messages.
class region_source {
public:
    virtual ~region_source() = default;

    /// Allocates memory for `sharers`, ranks of the team that are on one node, this rank among them; `bytes` for each,
    /// the same everywhere. Collective over the team, each rank with the list it is in. Returns nothing where memory
    /// cannot be shared on some node, or there is too little of it now. @throws transport_error
    /// @param at_once bytes of each part that have memory at once; the rest after shared_region::take
    virtual std::optional<shared_region> share(team& ranks, std::span<const int> sharers, std::size_t bytes,
                                               std::size_t at_once) = 0;
    std::optional<shared_region> share(team& ranks, std::span<const int> sharers, std::size_t bytes) {
        return share(ranks, sharers, bytes, bytes);
    }
};

/// Files in /dev/shm, for ranks that are processes. They have no names, so that nothing is left of them however the
/// processes end, unless some process can reach a file by a name alone: docs/explanation/shared-memory.md.
class posix_regions final : public region_source {
public:
    /// @param warn gets a line where memory cannot be shared, on one rank; may be null
    explicit posix_regions(std::function<void(std::string_view)> warn = nullptr) : warn_(std::move(warn)) {}

    using region_source::share;
    std::optional<shared_region> share(team& ranks, std::span<const int> sharers, std::size_t bytes,
                                       std::size_t at_once) override;

private:
    const std::function<void(std::string_view)> warn_;
};

}  // namespace terrace::detail
