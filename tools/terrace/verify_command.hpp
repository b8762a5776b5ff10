#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "tools/terrace/exports/formats.hpp"

namespace terrace::detail {

/// `terrace verify PLAN [--count N] [--whole]`: proves that a plan computes the right result on every rank. Instead of
/// a plan, what `terrace export` wrote of a call.
struct verify_command {
    std::filesystem::path plan_file;    ///< or OUT of an exported call
    std::optional<std::int64_t> count;  ///< of elements; nothing: those where plans go wrong
    bool whole = false;                 ///< every program as a whole, however long that takes

    /// @returns the exit code: 1 where a program is wrong
    int run() const;

private:
    int prove_call(const export_format& format) const;
};

}  // namespace terrace::detail
