#include "tools/common/gpu_info.hpp"

#include <array>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "transport/nccl/module.hpp"

namespace terrace::detail {

namespace {

// CUDA's version numbers: 13010 is 13.1.
std::string cuda_version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

// Returns "2 NVIDIA H200, 1 NVIDIA L4".
std::string names_of(const gpu_runtime& gpu, int devices) {
    std::map<std::string, int> times;
    for (int d = 0; d < devices; ++d) {
        std::array<char, 256> name{};
        if (gpu.device_name(d, name.data(), name.size()) != 0) name = {"(no name)"};
        ++times[name.data()];
    }
    std::vector<std::string> parts;
    for (const auto& [name, n] : times) parts.push_back(fmt::format("{} {}", n, name));
    return fmt::format("{}", fmt::join(parts, ", "));
}

gpu_part cuda_of(const gpu_runtime& gpu) {
    int driver = 0, runtime = 0, devices = 0;
    if (const int code = gpu.cuda_versions(&driver, &runtime); code != 0) return {false, gpu.cuda_error(code)};
    const std::string compiled = fmt::format("CUDA {}", cuda_version(runtime));
    if (driver == 0)
        return {false, fmt::format("{} is there, but no driver (libcuda.so.1): install NVIDIA's, where there is a GPU",
                                   compiled)};
    const std::string both = fmt::format("{}, driver for {}", compiled, cuda_version(driver));
    if (const int code = gpu.device_count(&devices); code != 0)
        return {false, fmt::format("{}: {}; does nvidia-smi see a GPU?", both, gpu.cuda_error(code))};
    if (devices == 0) return {false, fmt::format("{}: no GPU is visible; is CUDA_VISIBLE_DEVICES right?", both)};
    return {true, fmt::format("{}: {}", both, names_of(gpu, devices))};
}

}  // namespace

gpu_info look_for_gpus(const std::filesystem::path& module) {
    const gpu_module found = load_gpu_module(module);
    if (found.runtime == nullptr) return {{false, found.trouble}, {false, "comes with cuda, in one module"}};
    gpu_info info{cuda_of(*found.runtime), {}};
    int version = 0;
    if (const int code = found.runtime->nccl_version(&version); code != 0)
        info.nccl.detail = found.runtime->nccl_error(code);
    else  // NCCL's number 22809 is 2.28.9
        info.nccl = {info.cuda.usable, fmt::format("NCCL {}.{}.{}{}", version / 10000, version / 100 % 100,
                                                   version % 100, info.cuda.usable ? "" : ", which needs a GPU")};
    return info;
}

}  // namespace terrace::detail
