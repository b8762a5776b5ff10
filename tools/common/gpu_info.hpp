#pragma once

#include <filesystem>
#include <string>

namespace terrace::detail {

struct gpu_part {
    bool usable = false;
    std::string detail;  ///< which, or why not and what to do
};

/// What of GPUs this machine has, found out by loading the module that the library loads.
struct gpu_info {
    gpu_part cuda, nccl;
};

/// @param module its file; empty: where the library looks for it
gpu_info look_for_gpus(const std::filesystem::path& module);

}  // namespace terrace::detail
