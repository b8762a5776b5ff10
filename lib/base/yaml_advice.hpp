#pragma once

#include <string_view>

namespace terrace::detail {

/// Returns what to do about an error of yaml-cpp's, whose message only says what is wrong.
std::string_view advice_on(std::string_view message);

/// True if this line of `text`, counted from 0, holds a list of hosts as Slurm writes it, without quotes: YAML ends a
/// value in a list or map at '['.
bool has_bare_host_list(std::string_view text, int line);

}  // namespace terrace::detail
