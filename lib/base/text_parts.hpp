#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

namespace terrace::detail {

/// Returns a text without leading blanks and line ends; trimmed() also removes trailing ones.
constexpr std::string_view without_leading_blanks(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    return text;
}
constexpr std::string_view trimmed(std::string_view text) {
    return without_leading_blanks(text.substr(0, text.find_last_not_of(" \t\r\n") + 1));
}

/// Returns the number at the beginning of a text; nothing if there is none. @param rest receives the text behind it
template <class Number>
std::optional<Number> leading_number(std::string_view text, std::string_view* rest = nullptr) {
    Number n{};
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (failure != std::errc{}) return {};
    if (rest != nullptr) *rest = text.substr(static_cast<std::size_t>(end - text.data()));
    return n;
}

/// Returns the number that a whole text represents; nothing for other texts.
template <class Number>
std::optional<Number> as_number(std::string_view text) {
    const auto n = leading_number<Number>(text, &text);
    return text.empty() ? n : std::nullopt;
}

/// Returns the parts of a text between separators: one more than there are separators.
inline std::vector<std::string_view> split_at(char separator, std::string_view text) {
    std::vector<std::string_view> parts;
    for (std::size_t end = 0; end != text.npos; text.remove_prefix(end == text.npos ? 0 : end + 1)) {
        end = text.find(separator);
        parts.push_back(text.substr(0, end));
    }
    return parts;
}

/// Calls `f(line, number)` for each line, without its line end. Numbers start at 1. Lines of Windows keep their '\r'.
template <class F>
void for_each_line(std::string_view text, const F& f) {
    for (int number = 1; !text.empty(); ++number) {
        const std::size_t end = text.find('\n');
        f(text.substr(0, end), number);
        text.remove_prefix(end == text.npos ? text.size() : end + 1);
    }
}

}  // namespace terrace::detail
