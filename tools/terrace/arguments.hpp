#pragma once

#include <cstdint>
#include <string>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// One call, as the command line names it.
struct call_options {
    std::string bytes = "64MiB";
    std::string collective{to_string(terrace::detail::collective::allreduce)};

    /// @throws usage_error
    std::int64_t size() const;
    terrace::detail::collective what() const { return *parse_collective(collective); }
};

}  // namespace terrace::detail
