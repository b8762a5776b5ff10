#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace terrace::detail {

/// A module: a part of Terrace that links a library which not every program has. A module is a file of its own. It is
/// loaded when a program asks for it, and exports one symbol: a table of functions.
struct module_kind {
    std::string file;    ///< for example terrace-nccl.so
    std::string folder;  ///< its directory in a build tree
    std::string symbol;  ///< exported symbol of its table
    std::string absent;  ///< advice if there is no such file
    std::string broken;  ///< advice if the file cannot be loaded
};

/// The first members of every table.
struct module_head {
    const char* version;  ///< version of Terrace, equal in module and library
    std::size_t bytes;    ///< size of the table
};

/// A module's table, or the reason why there is none.
struct loaded_module {
    const module_head* table = nullptr;
    std::string path;     ///< file that was loaded, or tried last
    std::string trouble;  ///< error, with advice; empty if there is a table
};

/// Return the modules for an MPI of known_mpis.hpp, for UCX and for PMIx.
module_kind module_for_mpi(std::string_view library);
module_kind module_for_ucx();
module_kind module_for_pmix();

/// Returns the path of a module: beside the library or program with this function, in the library directory beside the
/// program's, in a build tree, or where Terrace is installed. If the file is missing, returns the last of these.
std::filesystem::path find_module(const module_kind& kind);

/// Loads a module until the process ends. @param at file of the module; empty: the result of find_module()
/// @param bytes size of the table that the library expects
loaded_module load_module(const module_kind& kind, const std::filesystem::path& at, std::size_t bytes);

}  // namespace terrace::detail
