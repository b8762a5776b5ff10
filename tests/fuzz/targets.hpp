#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace terrace::detail {

/// One reader of files from outside. `read` gives it any bytes; all it may do about them is throw terrace::error.
struct fuzz_target {
    std::string name;  ///< also that of its directory in tests/fuzz/corpus
    std::function<void(std::string_view bytes)> read;
    int mutations;  ///< of each corpus file in the normal tests
};

/// All targets: one per row of topology_formats() and of export_formats(), host files and plans.
std::span<const fuzz_target> fuzz_targets();

}  // namespace terrace::detail
