#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

// CLI11 takes seconds to compile: whoever parses includes it.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace terrace::detail {

/// Adds an option that names a file to write; "-" means standard output. Then the program reports to standard error.
CLI::Option* add_output(CLI::App& command, const std::string& names, std::filesystem::path& file,
                        const std::string& description);

/// True if a result goes to standard output: no file is named, or "-".
bool is_printed(const std::filesystem::path& file);

/// Writes a result to `file` (write_atomically), or to standard output if is_printed(file). @throws input_error
void write_output(const std::filesystem::path& file, std::string_view content);

/// Refuses an output that cannot be written, and one that would destroy something of the user's: a file that the same
/// command reads, and, unless `force`, an existing file that no Terrace program wrote. Files that Terrace writes say so
/// near their beginning ("made by terrace ..."). Call it before the work whose result goes to `file`. What is printed,
/// and what is not a regular file (a pipe, /dev/stdout), passes.
/// @param inputs files that the command reads; names of no file are passed over
/// @throws usage_error naming the file and what to do; input_error if there is no folder to write it in
void expect_replaceable(const std::filesystem::path& file, std::initializer_list<std::filesystem::path> inputs,
                        bool force);

/// Adds --force, by which a command replaces files that no Terrace program wrote.
void add_force(CLI::App& command, bool& force);

}  // namespace terrace::detail
