#include "base/text_check.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

namespace terrace::detail {

namespace {

// Returns the bytes of the UTF-8 character at the beginning of `text`; 0 if there is none.
std::size_t utf8_length(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    if (byte(0) < 0x80) return 1;
    const std::size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
    if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((byte(i) & 0xc0) != 0x80) return 0;
    const bool overlong = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
    const bool surrogate = byte(0) == 0xed && byte(1) >= 0xa0;
    const bool too_large = byte(0) == 0xf4 && byte(1) >= 0x90;
    return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

bool is_control(char c) noexcept {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7f;
}

void check_text(std::string_view text, const std::string& file) {
    if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
        throw input_error(file, 1, 1, "the text is UTF-16; save the file as plain UTF-8 text");
    for (const auto& [magic, program] : {std::pair("\x1f\x8b", "gunzip"),
                                         {"\x28\xb5\x2f\xfd", "unzstd"},
                                         {"\xfd\x37zXZ", "unxz"},
                                         {"PK\x03\x04", "unzip"}})
        if (text.starts_with(magic))
            throw input_error(file, 0, 0, fmt::format("is compressed; unpack it first: {}", program));
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t length = utf8_length(text.substr(i));
        if (length > 0 && !is_control(text[i])) {
            i += length;
            continue;
        }
        const std::string_view before = text.substr(0, i);
        const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 == 0: the first line
        throw input_error(
            file, static_cast<int>(std::ranges::count(before, '\n')) + 1, static_cast<int>(i - line_start) + 1,
            fmt::format("byte 0x{:02x} is {}; save the file as plain UTF-8 text", static_cast<unsigned char>(text[i]),
                        length == 0 ? "not UTF-8" : "a control character"));
    }
}

}  // namespace terrace::detail
