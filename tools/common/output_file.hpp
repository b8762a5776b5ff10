#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

// CLI11 takes seconds to compile, so only files that parse include it.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace terrace::detail {

/// Adds an option for the name of an output file. "-" means standard output; reports then go to standard error.
CLI::Option* add_output(CLI::App& command, const std::string& names, std::filesystem::path& file,
                        const std::string& description);

/// Returns true if a result goes to standard output: the file is empty or "-".
bool is_printed(const std::filesystem::path& file);

/// Writes a result to `file` (write_atomically), or to standard output if is_printed(file). @throws input_error
void write_output(const std::filesystem::path& file, std::string_view content);

/// Refuses an output file that cannot be written, or that would destroy data of the user: an input file of the same
/// command, and, unless `force`, an existing file that no Terrace program wrote. Files by Terrace contain a mark near
/// their beginning ("made by terrace ..."). Call this before the work whose result goes to `file`. Standard output and
/// files that are not regular (a pipe, /dev/stdout) are accepted.
/// @param inputs files that the command reads; names of missing files are ignored
/// @throws usage_error with the file and the fix; input_error if the file cannot be written in its folder
void expect_replaceable(const std::filesystem::path& file, std::initializer_list<std::filesystem::path> inputs,
                        bool force);

/// Adds --force, which lets a command replace files that no Terrace program wrote.
void add_force(CLI::App& command, bool& force);

}  // namespace terrace::detail
