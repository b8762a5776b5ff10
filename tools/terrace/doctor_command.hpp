#pragma once

namespace terrace::detail {

/// `terrace doctor`: what would trip a run on this machine, each with its fix.
struct doctor_command {
    /// @returns the exit code: 1 where something would
    int run() const;
};

}  // namespace terrace::detail
