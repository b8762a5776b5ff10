#pragma once

#include <filesystem>

namespace terrace::detail {

/// `terrace diff A B`: prints what differs between two plans, at which message sizes, and the predicted gain.
struct diff_command {
    std::filesystem::path before, after;

    /// @returns the exit code: 0 if the plans run everything alike, 1 if they differ
    int run() const;
};

}  // namespace terrace::detail
