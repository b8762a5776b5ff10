#pragma once

#include <filesystem>
#include <initializer_list>

// CLI11 takes seconds to compile: whoever parses includes it.
namespace CLI {
class App;
}

namespace terrace::detail {

/// Refuses an output that would destroy something of the user's: a file that the same command reads, and, unless
/// `force`, an existing file that no Terrace program wrote. Files that Terrace writes say so near their beginning
/// ("made by terrace ..."). Call it before the work whose result goes to `file`. An empty name, "-" and what is not a
/// regular file (a pipe, /dev/stdout) pass.
/// @param inputs files that the command reads; names of no file are passed over
/// @throws usage_error naming the file and what to do
void expect_replaceable(const std::filesystem::path& file, std::initializer_list<std::filesystem::path> inputs,
                        bool force);

/// Adds --force, by which a command replaces files that no Terrace program wrote.
void add_force(CLI::App& command, bool& force);

}  // namespace terrace::detail
