#pragma once

#include <filesystem>
#include <string>

#include "transport/nccl/gpu_runtime.hpp"

namespace terrace::detail {

/// The runtime that the module of that name gives, or why there is none and what to do about it.
struct gpu_module {
    const gpu_runtime* runtime = nullptr;
    std::string path;     ///< that was loaded, or tried last
    std::string trouble;  ///< empty where there is a runtime
};

/// Loads terrace-nccl.so, once per process: nothing that does not ask for GPUs needs CUDA or NCCL.
/// @param at its file; empty: beside the library or the program, and where it is installed
gpu_module load_gpu_module(const std::filesystem::path& at);

/// Returns the runtime of that module. @throws transport_error where there is none
const gpu_runtime& need_gpu_runtime(const std::filesystem::path& at);

}  // namespace terrace::detail
