#pragma once

#include <string>

namespace terrace::detail {

/// Returns a word in lower case without dashes and underscores: AllReduce and all-reduce are spelled as allreduce.
inline std::string plain_letters(const std::string& word) {
    std::string letters;
    for (const char c : word)
        if (c != '-' && c != '_') letters += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return letters;
}

}  // namespace terrace::detail
