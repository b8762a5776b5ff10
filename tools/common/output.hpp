#pragma once

#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace terrace::detail {

/// Writes all of `text` to standard output, now. @throws input_error if that is full or closed
void print_text(std::string_view text);

/// Writes what a program reports: to standard output, or to standard error after report_to_standard_error().
/// @throws input_error if that is full or closed
void say_text(std::string_view text);
/// Keeps standard output free for a result.
void report_to_standard_error() noexcept;

/// Writes to standard error what went wrong. A program that cannot say so, as on a full disk, still ends as it would.
void complain_text(std::string_view text) noexcept;

/// The same, formatted.
template <class... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
    say_text(fmt::format(format, std::forward<Values>(values)...));
}
template <class... Values>
void complain(fmt::format_string<Values...> format, Values&&... values) {
    complain_text(fmt::format(format, std::forward<Values>(values)...));
}

}  // namespace terrace::detail
