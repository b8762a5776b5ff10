#pragma once

#include "transport/shared_region.hpp"

namespace terrace::detail {

/// Memory of this process, for ranks that are its threads. A part lives as long as any rank that knows of it.
class thread_regions final : public region_source {
public:
    using region_source::share;
    std::optional<shared_region> share(team& ranks, std::span<const int> sharers, std::size_t bytes,
                                       std::size_t at_once) override;
};

}  // namespace terrace::detail
