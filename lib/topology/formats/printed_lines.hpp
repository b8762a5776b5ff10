#pragma once

#include <string_view>
#include <vector>

#include "base/text_parts.hpp"

namespace terrace::detail {

/// What other programs print: lines of words between blanks.
inline constexpr std::string_view line_blanks = " \t\r";

/// The words of a line.
inline std::vector<std::string_view> split_at_blanks(std::string_view line) {
    std::vector<std::string_view> words;
    for (std::size_t i = line.find_first_not_of(line_blanks); i != line.npos;) {
        const std::size_t end = line.find_first_of(line_blanks, i);
        words.push_back(line.substr(i, end - i));
        i = line.find_first_not_of(line_blanks, end);
    }
    return words;
}

/// The line without blanks at its end.
inline std::string_view without_blanks_at_end(std::string_view line) {
    return line.substr(0, line.find_last_not_of(line_blanks) + 1);
}

}  // namespace terrace::detail
