#include "transport/module.hpp"

#include <dlfcn.h>

#include <vector>

#include <fmt/format.h>

#include <terrace/version.hpp>

#include "transport/known_mpis.hpp"

namespace terrace::detail {

namespace fs = std::filesystem;

namespace {

// Returns the path of the library or program that contains this code.
fs::path self() {
    Dl_info here{};
    if (dladdr(reinterpret_cast<const void*>(&find_module), &here) == 0 || here.dli_fname == nullptr) return {};
    fs::path file = here.dli_fname;
    std::error_code none;
    if (file.is_relative()) file = fs::read_symlink("/proc/self/exe", none);  // the program's name as it was called
    return file;
}

std::vector<fs::path> places(const module_kind& kind) {
    std::vector<fs::path> all;
    constexpr const char* installed_in = "terrace";  // in the library directory
    constexpr int depth = 3;                         // depth of programs and libraries in a build tree
    if (fs::path directory = self().parent_path(); !directory.empty()) {
        all.push_back(directory / kind.file);
        all.push_back(directory / installed_in / kind.file);
        all.push_back(directory / ".." / TERRACE_LIBDIR / installed_in / kind.file);
        for (int up = 0; up < depth; ++up)
            all.push_back((directory = directory.parent_path()) / kind.folder / kind.file);
    }
    all.push_back(fs::path(TERRACE_PREFIX) / TERRACE_LIBDIR / installed_in / kind.file);
    return all;
}

}  // namespace

module_kind module_for_mpi(std::string_view library) {
    const known_mpi& mpi = mpi_called(library);
    return {.file = fmt::format("terrace-{}.so", library),
            .folder = "lib/transport/mpi",
            .symbol = "terrace_mpi_module",
            .absent = fmt::format("this Terrace was built without {}; install it ({}) and build again, "
                                  "or name the module in options::mpi_module (TERRACE_MPI_MODULE)",
                                  mpi.name, mpi.package),
            .broken = fmt::format("it requires the {} that it was built with: install it, or add its directory to "
                                  "LD_LIBRARY_PATH",
                                  mpi.name)};
}

module_kind module_for_ucx() {
    return {.file = "terrace-ucx.so",
            .folder = "lib/transport/ucx",
            .symbol = "terrace_ucx_module",
            .absent = "this Terrace was built without UCX; install it (on Debian libucx-dev) and build again",
            .broken = "it requires the UCX that it was built with: install it (on Debian libucx0)"};
}

module_kind module_for_pmix() {
    return {.file = "terrace-pmix.so",
            .folder = "lib/transport/pmix",
            .symbol = "terrace_pmix_module",
            .absent =
                "this Terrace was built without PMIx; install it (on Debian libpmix-dev) and build again, or let "
                "ranks meet in a directory (TERRACE_BOOTSTRAP=file:DIR)",
            .broken = "it requires the PMIx that it was built with: install it (on Debian libpmix2)"};
}

fs::path find_module(const module_kind& kind) {
    fs::path last;
    for (const fs::path& file : places(kind))
        if (std::error_code none; fs::exists(last = file, none)) break;
    return last;
}

loaded_module load_module(const module_kind& kind, const fs::path& at, std::size_t bytes) {
    const fs::path file = at.empty() ? find_module(kind) : at;
    loaded_module m{nullptr, file.string(), {}};
    if (std::error_code none; at.empty() && !fs::exists(file, none)) {
        m.trouble = fmt::format("{} is missing: {}", m.path, kind.absent);
        return m;
    }
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: CUDA and MPI cannot be unloaded
    if (handle == nullptr) {
        m.trouble = fmt::format("{}; {}", dlerror(), kind.broken);
        return m;
    }
    const auto* table = static_cast<const module_head*>(dlsym(handle, kind.symbol.c_str()));
    if (table == nullptr) m.trouble = fmt::format("{} is not a module {} of Terrace", m.path, kind.file);
    else if (table->bytes != bytes || std::string_view(table->version) != version())
        m.trouble = fmt::format("{} is of Terrace {}, but the library is {}: install both from one build", m.path,
                                table->version, version());
    else m.table = table;
    return m;
}

}  // namespace terrace::detail
