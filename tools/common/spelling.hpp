#pragma once

#include <string>
#include <string_view>

#include "base/letters.hpp"

namespace terrace::detail {

/// Returns a word in lower case without dashes and underscores: AllReduce and all-reduce are spelled as allreduce.
inline std::string plain_letters(const std::string& word) {
    std::string letters;
    for (const char c : word)
        if (c != '-' && c != '_') letters += in_lower_case(c);
    return letters;
}

/// Returns text as it stands in XML and HTML, also in quotes.
inline std::string in_markup(std::string_view text) {
    std::string out;
    for (const char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '"' ? "&quot;" : std::string(1, c);
    return out;
}

}  // namespace terrace::detail
