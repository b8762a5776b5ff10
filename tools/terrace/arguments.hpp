#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// The bytes that an option says, at least so many.
/// @throws usage_error
std::int64_t size_of(std::string_view option, std::string_view text, std::int64_t least);

/// One call, as the command line names it.
struct call_options {
    std::string bytes = "64MiB";
    std::string collective{to_string(terrace::detail::collective::allreduce)};

    /// @throws usage_error
    std::int64_t size() const;
    terrace::detail::collective what() const { return *parse_collective(collective); }
};

}  // namespace terrace::detail
