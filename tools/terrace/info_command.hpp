#pragma once

#include <string>

namespace terrace::detail {

/// Returns what `terrace info` prints.
std::string info_text();

/// `terrace info [--json]`: what this Terrace is, what it was built with, and what the environment tells it.
struct info_command {
    bool json = false;

    /// @returns the exit code: 1 where that has something wrong
    int run() const;
};

}  // namespace terrace::detail
