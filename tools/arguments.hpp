#pragma once

#include <cstdint>
#include <string>

#include <CLI/App.hpp>

#include "plan/recipe.hpp"

namespace terrace {

/// One call, as the command line names it.
struct call_options {
    std::string bytes = "64MiB";
    std::string collective{to_string(terrace::collective::allreduce)};

    /// @throws usage_error
    std::int64_t size() const;
    terrace::collective what() const { return *parse_collective(collective); }
};

/// Adds --bytes and --collective.
void add_call_options(CLI::App& command, call_options& o);

}  // namespace terrace
