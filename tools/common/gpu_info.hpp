#pragma once

#include <filesystem>
#include <string>

namespace terrace::detail {

struct gpu_part {
    bool usable = false;
    std::string detail;  ///< devices and versions, or the problem and its fix
};

/// The GPU support of this machine, found by loading the library's module for GPUs.
struct gpu_info {
    gpu_part cuda, nccl;
};

/// @param module the module's file; empty: the library's default place
gpu_info look_for_gpus(const std::filesystem::path& module);

}  // namespace terrace::detail
