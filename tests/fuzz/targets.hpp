#pragma once

#include <span>
#include <string_view>

namespace terrace {

/// One reader of files from outside. `read` gives it any bytes; all it may do about them is throw terrace::error.
struct fuzz_target {
    std::string_view name;  ///< also that of its directory in tests/fuzz/corpus
    void (*read)(std::string_view bytes);
    int mutations;  ///< of each corpus file in the normal tests
};

std::span<const fuzz_target> fuzz_targets();

}  // namespace terrace
