#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace terrace::detail {

/// A reader of untrusted files. `read` accepts any bytes, and may only return or throw terrace::error.
struct fuzz_target {
    std::string name;  ///< also the name of its directory in tests/fuzz/corpus
    std::function<void(std::string_view bytes)> read;
    int mutations;  ///< damaged copies of each corpus file in the normal tests
};

/// Returns all targets: one per row of topology_formats() and of export_formats(), host files and plans.
std::span<const fuzz_target> fuzz_targets();

}  // namespace terrace::detail
