#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace terrace::detail {

/// Returns true for digits or letters of ASCII, whatever the locale.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Returns the text with small letters of ASCII in place of capital letters.
constexpr char in_lower_case(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
inline std::string in_lower_case(std::string text) {
    for (char& c : text) c = in_lower_case(c);
    return text;
}

/// Returns true if two texts are equal except for the case of letters.
constexpr bool same_word(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](char x, char y) { return in_lower_case(x) == in_lower_case(y); });
}

}  // namespace terrace::detail
