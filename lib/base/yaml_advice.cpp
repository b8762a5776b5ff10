#include "base/yaml_advice.hpp"

#include <algorithm>
#include <cstddef>

#include "base/letters.hpp"

namespace terrace::detail {

std::string_view advice_on(std::string_view message) {
    struct row {
        std::string_view part, advice;
    };
    constexpr row table[] = {
        {"sequence flow", "close the list with ]"},
        {"map flow", "close the map with }"},
        {"flow end", "a ] or } closes what is not open; remove it, or open it before"},
        {"EOF in scalar", "close the quotes"},
        {"illegal map value", "put a text that holds \": \" in quotes, and indent keys of one map alike"},
        {"block entry", "indent with spaces, and items of one list alike"},
        {"unknown token", "put a text that begins with @ ` or % in quotes"},
        {"escape character", "write \\\\ for a backslash, or use single quotes"},
    };
    for (const row& r : table)
        if (message.find(r.part) != message.npos) return r.advice;
    return "this is not YAML; look for missing quotes, brackets and spaces here";
}

bool has_bare_host_list(std::string_view text, int line) {
    for (; line > 0 && !text.empty(); --line) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    text = text.substr(0, text.find('\n'));
    for (std::size_t i = 1; i + 1 < text.size(); ++i)
        if (text[i] == '[' && is_digit(text[i + 1]) &&
            (is_letter(text[i - 1]) || is_digit(text[i - 1]) || text[i - 1] == '-'))
            return std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i), '"') % 2 == 0;
    return false;
}

}  // namespace terrace::detail
