#include "base/yaml_scalar.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/letters.hpp"

namespace terrace::detail {

namespace {

// Returns true if every YAML reader reads the bare text as this text; false in case of doubt.
bool plain(std::string_view text) {
    if (text.empty() || text.back() == ' ') return false;
    // A digit begins a number or a date, unless a space follows somewhere, as in "10 GB/s".
    if (!is_letter(text.front()) && !(is_digit(text.front()) && text.find(' ') != text.npos)) return false;
    for (const std::string_view word : {"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
        if (same_word(word, text)) return false;
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return is_letter(c) || is_digit(c) || std::strchr("_./+- ", c) != nullptr; });
}

}  // namespace

std::string yaml_scalar(std::string_view text) { return plain(text) ? std::string(text) : in_quotes(text); }

std::string in_quotes(std::string_view text) {
    std::string made = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') made += '\\';
        if (c == '\n') made += "\\n";
        else if (c == '\t') made += "\\t";
        else if (c == '\r') made += "\\r";
        else if (const auto code = static_cast<unsigned char>(c); code < 0x20) made += fmt::format("\\u{:04x}", code);
        else made += c;
    }
    return made + '"';
}

}  // namespace terrace::detail
