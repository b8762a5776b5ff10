#include "transport/nccl/module.hpp"

#include <terrace/error.hpp>

#include "transport/module.hpp"

namespace terrace::detail {

gpu_module load_gpu_module(const std::filesystem::path& at) {
    const loaded_module m = load_module(
        {.file = "terrace-nccl.so",
         .folder = "lib/transport/nccl",
         .symbol = "terrace_gpu_runtime",
         .absent =
             "this Terrace was built without CUDA and NCCL; install them, set it up with -Dcuda=enabled and build "
             "again, or name the module in TERRACE_GPU_MODULE",
         .broken = "it requires the CUDA runtime and NCCL that it was built with: install them, or add their directory "
                   "to LD_LIBRARY_PATH"},
        at, sizeof(gpu_runtime));
    return {reinterpret_cast<const gpu_runtime*>(m.table), m.path, m.trouble};
}

const gpu_runtime& need_gpu_runtime(const std::filesystem::path& at) {
    const gpu_module m = load_gpu_module(at);
    if (m.runtime == nullptr) throw transport_error("nccl", "dlopen", 1, m.trouble);
    return *m.runtime;
}

}  // namespace terrace::detail
