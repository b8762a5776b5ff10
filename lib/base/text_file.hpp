#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace terrace::detail {

/// Returns "; did you mean plan.yaml?" for a missing file plan.yml: the file of the same folder whose name differs from
/// it least, in at most one letter of six, and two in all. An empty text if there is none.
std::string file_like(const std::filesystem::path& missing);

/// @throws input_error if `file` is there but is no regular file: to read a pipe or a terminal may take for ever.
void expect_regular(const std::filesystem::path& file);

/// Some editors begin a text in UTF-8 with it.
inline constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

/// The text of `file`, a regular one, behind its byte order mark. @throws input_error if it cannot be read or holds
/// more than `max_bytes`
std::string read_text(const std::filesystem::path& file, std::size_t max_bytes);

/// Writes `content` to `file`, or to what it links to, so that a reader sees the old file or the whole new one, never a
/// part. The new one has the old one's permissions. What is not a regular file (/dev/stdout, a pipe) is simply written
/// to. @throws input_error
void write_atomically(const std::filesystem::path& file, std::string_view content);

}  // namespace terrace::detail
