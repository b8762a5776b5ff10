#pragma once

#include <string>
#include <string_view>

#include "base/letters.hpp"

namespace terrace::detail {

/// Returns a word in lower case without dashes and underscores, so AllReduce and all-reduce equal allreduce.
inline std::string plain_letters(const std::string& word) {
    std::string letters;
    for (const char c : word)
        if (c != '-' && c != '_') letters += in_lower_case(c);
    return letters;
}

/// Returns text escaped for XML and HTML, also for attributes in double quotes.
inline std::string in_markup(std::string_view text) {
    std::string out;
    for (const char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '"' ? "&quot;" : std::string(1, c);
    return out;
}

}  // namespace terrace::detail
