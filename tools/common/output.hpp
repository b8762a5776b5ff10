#pragma once

#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace terrace::detail {

/// Writes all of `text` to standard output and flushes it. @throws input_error if standard output is full or closed
void print_text(std::string_view text);

/// Writes a program's report to standard output, or to standard error after report_to_standard_error().
/// @throws input_error if the stream is full or closed
void say_text(std::string_view text);
/// Redirects reports to standard error, so standard output contains only the result.
void report_to_standard_error() noexcept;

/// Writes an error message to standard error. Failures, such as a full disk, are ignored.
void complain_text(std::string_view text) noexcept;

/// These functions format their text first.
template <class... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
    say_text(fmt::format(format, std::forward<Values>(values)...));
}
template <class... Values>
void print_error(fmt::format_string<Values...> format, Values&&... values) {
    complain_text(fmt::format(format, std::forward<Values>(values)...));
}

}  // namespace terrace::detail
