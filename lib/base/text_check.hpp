#pragma once

#include <string>
#include <string_view>

namespace terrace::detail {

/// Returns true for control characters that text files must not contain: all but tab and line ends.
bool is_control(char c) noexcept;

/// Checks a text before yaml-cpp, which replaces invalid UTF-8 and treats byte 4 as the end of the file.
/// @throws input_error at the first byte of `text` that is not UTF-8 or is a control character
void check_text(std::string_view text, const std::string& file);

}  // namespace terrace::detail
