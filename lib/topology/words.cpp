#include "topology/words.hpp"

#include <algorithm>

namespace terrace::detail {

std::vector<word> words_of(std::string_view text, int line) {
    std::vector<word> words;
    std::size_t at = 0;
    const auto skip_blanks = [&] { at = std::min(text.find_first_not_of(" \t\r", at), text.size()); };
    const auto take_to = [&](std::string_view ends) {
        const std::size_t start = at;
        at = std::min(text.find_first_of(ends, start), text.size());
        return text.substr(start, at - start);
    };
    for (skip_blanks(); at < text.size(); skip_blanks()) {
        word& w = words.emplace_back(word{line, static_cast<int>(at) + 1, take_to(" \t\r="), {}});
        skip_blanks();
        if (!text.substr(at).starts_with('=')) continue;
        ++at;
        skip_blanks();
        const bool quoted = text.substr(at).starts_with('"') && text.find('"', at + 1) != text.npos;
        at += quoted;
        w.value = take_to(quoted ? "\"" : " \t\r");
        at += quoted;
    }
    return words;
}

}  // namespace terrace::detail
