#pragma once

#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace terrace::detail {

/// Writes all of `text` to standard output, now. @throws input_error if that is full or closed
void say_text(std::string_view text);

/// The same, formatted.
template <class... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
    say_text(fmt::format(format, std::forward<Values>(values)...));
}

}  // namespace terrace::detail
