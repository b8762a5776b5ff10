#include "transport/nccl/module.hpp"

#include <dlfcn.h>

#include <vector>

#include <fmt/format.h>

#include <terrace/version.hpp>

namespace terrace {

namespace {

constexpr const char* file_name = "terrace-nccl.so";

// Beside the library or the program that this is in, in the library directory beside the program's, in the tree of a
// build, and where it is installed.
std::vector<std::filesystem::path> places() {
    std::vector<std::filesystem::path> found;
    Dl_info here{};
    if (dladdr(reinterpret_cast<const void*>(&load_gpu_module), &here) != 0 && here.dli_fname != nullptr) {
        std::filesystem::path self = here.dli_fname;
        std::error_code none;
        if (self.is_relative()) self = std::filesystem::read_symlink("/proc/self/exe", none);  // as it was called
        for (const char* there : {".", "../" TERRACE_LIBDIR, "../lib/transport/nccl"})
            found.push_back(self.parent_path() / there / file_name);
    }
    found.push_back(std::filesystem::path(TERRACE_PREFIX) / TERRACE_LIBDIR / file_name);
    return found;
}

gpu_module load(const std::filesystem::path& file) {
    gpu_module m{nullptr, file.string(), {}};
    // Never closed: CUDA does not like to be.
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        m.trouble = fmt::format(
            "{}; it needs the CUDA runtime and NCCL that it was built with: install them, or add "
            "their directory to LD_LIBRARY_PATH",
            dlerror());
        return m;
    }
    const auto* table = static_cast<const gpu_runtime*>(dlsym(handle, gpu_runtime_symbol));
    if (table == nullptr) m.trouble = fmt::format("{}: no module of Terrace", m.path);
    else if (table->bytes != sizeof *table || std::string_view(table->version) != version())
        m.trouble = fmt::format("{}: of Terrace {}, but this is {}; install both from one build", m.path,
                                table->version, version());
    else m.runtime = table;
    return m;
}

}  // namespace

gpu_module load_gpu_module(const std::filesystem::path& at) {
    if (!at.empty()) return load(at);
    std::filesystem::path last;
    for (const std::filesystem::path& file : places())
        if (std::error_code none; std::filesystem::exists(last = file, none)) return load(file);
    return {nullptr, last.string(),
            fmt::format("there is no {}; this Terrace was built without CUDA and NCCL: install them, set it up with "
                        "-Dcuda=enabled and build again, or name the module in TERRACE_GPU_MODULE",
                        last.string())};
}

}  // namespace terrace
