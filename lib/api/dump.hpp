#pragma once

#include <filesystem>
#include <string>

namespace terrace::detail {

/// From now on SIGUSR1 asks for a dump, unless the program has a handler of its own for it.
/// @returns dumps_asked_for()
unsigned watch_for_dumps();
/// How often a dump has been asked for so far.
unsigned dumps_asked_for() noexcept;

/// Writes FILE.RANK.json. @throws input_error
void write_dump(const std::filesystem::path& file, int rank, const std::string& json);

}  // namespace terrace::detail
