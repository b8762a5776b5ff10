#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

namespace terrace::detail {

/// The number that a text is from its first to its last character; nothing if it is none.
template <class Number>
std::optional<Number> as_number(std::string_view text) {
    Number n{};
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), n);
    return failure == std::errc{} && end == text.data() + text.size() ? std::optional(n) : std::nullopt;
}

/// The parts of a text between separators: one more than there are of these.
inline std::vector<std::string_view> split_at(char separator, std::string_view text) {
    std::vector<std::string_view> parts;
    for (std::size_t end = 0; end != text.npos; text.remove_prefix(end == text.npos ? 0 : end + 1)) {
        end = text.find(separator);
        parts.push_back(text.substr(0, end));
    }
    return parts;
}

/// Calls `f(line, number)` for each line, from 1, without what ends it. Lines of Windows keep their '\r'.
template <class F>
void for_each_line(std::string_view text, const F& f) {
    for (int number = 1; !text.empty(); ++number) {
        const std::size_t end = text.find('\n');
        f(text.substr(0, end), number);
        text.remove_prefix(end == text.npos ? text.size() : end + 1);
    }
}

}  // namespace terrace::detail
