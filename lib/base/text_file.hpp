#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace terrace::detail {

/// Returns "; did you mean plan.yaml?" for a missing file plan.yml: the file in the same folder with the most similar
/// name. At most one letter may differ, or two in names of 12 letters or more. Returns an empty text if there is none.
std::string file_like(const std::filesystem::path& missing);

/// @throws input_error if `file` exists but is no regular file: reading a pipe or a terminal may never end.
void expect_regular(const std::filesystem::path& file);

/// Bytes with which some editors begin a text in UTF-8.
inline constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

/// Returns the text of a regular file, without its byte order mark. @throws input_error if the file cannot be read or
/// has more than `max_bytes`
std::string read_text(const std::filesystem::path& file, std::size_t max_bytes);

/// Writes `content` to `file`, or to the target of a link. A reader sees the old file or the whole new file, never a
/// part. The new file has the permissions of the old one. Content for a file that is not regular (/dev/stdout, a pipe)
/// is written directly. @throws input_error
void write_atomically(const std::filesystem::path& file, std::string_view content);

}  // namespace terrace::detail
