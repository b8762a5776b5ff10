#pragma once

#include <filesystem>
#include <string>

#include "transport/nccl/gpu_runtime.hpp"

namespace terrace::detail {

/// The runtime of the module terrace-nccl.so; without it, the reason and what to do.
struct gpu_module {
    const gpu_runtime* runtime = nullptr;
    std::string path;     ///< file that was loaded, or tried last
    std::string trouble;  ///< empty if there is a runtime
};

/// Loads terrace-nccl.so, once per process. Programs that use no GPU need neither CUDA nor NCCL.
/// @param at its file; empty: looks beside the library or the program, and where Terrace is installed
gpu_module load_gpu_module(const std::filesystem::path& at);

/// Returns the runtime of the module. @throws transport_error if there is none
const gpu_runtime& need_gpu_runtime(const std::filesystem::path& at);

}  // namespace terrace::detail
