#pragma once

#include <string>
#include <string_view>

namespace terrace::detail {

/// True for control characters that no text file has: all but tab and the ends of lines.
bool is_control(char c) noexcept;

/// yaml-cpp replaces what is not UTF-8 and takes byte 4 for the end of the file, so neither may reach it.
/// @throws input_error at the first byte of `text` that is not UTF-8 or is a control character
void check_text(std::string_view text, const std::string& file);

}  // namespace terrace::detail
