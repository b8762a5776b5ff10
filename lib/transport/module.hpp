#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace terrace::detail {

/// A module is a part of Terrace that links a library which not every program has. It is a file of its own, which is
/// loaded when a program asks for it, and shows one symbol: a table of functions.
struct module_kind {
    std::string file;    ///< terrace-nccl.so
    std::string folder;  ///< where a build puts it
    std::string symbol;  ///< of its table
    std::string absent;  ///< what to do where there is no such file
    std::string broken;  ///< what to do where it cannot be loaded
};

/// The first members of every table.
struct module_head {
    const char* version;  ///< of Terrace: a module and the library must be of one
    std::size_t bytes;    ///< of the table
};

/// A module's table, or why there is none.
struct loaded_module {
    const module_head* table = nullptr;
    std::string path;     ///< that was loaded, or tried last
    std::string trouble;  ///< with what to do; empty where there is a table
};

/// The modules for an MPI of known_mpis.hpp, for UCX, and for PMIx.
module_kind module_for_mpi(std::string_view library);
module_kind module_for_ucx();
module_kind module_for_pmix();

/// Returns where the module is: beside the library or the program that this function is in, in the library directory
/// beside the program's, in the tree of a build, or where Terrace is installed. If there is none, the last of these.
std::filesystem::path find_module(const module_kind& kind);

/// Loads a module, once per process, for good. @param at its file; empty: where find_module() finds it
/// @param bytes of the table that the library expects
loaded_module load_module(const module_kind& kind, const std::filesystem::path& at, std::size_t bytes);

}  // namespace terrace::detail
