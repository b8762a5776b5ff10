#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace terrace::detail {

/// "KEY" or "KEY=VALUE" in a line of Slurm's or MPI's files.
struct word {
    int line, column;  ///< from 1
    std::string_view key;
    std::optional<std::string_view> value;  ///< without its quotes
};

/// Returns the words of a line whose comment is removed. Blanks may be around `=`, and in a VALUE in quotes.
std::vector<word> words_of(std::string_view text, int line);

/// Blanks between words in the output of other programs.
inline constexpr std::string_view line_blanks = " \t\r";

/// Returns the words of a line.
inline std::vector<std::string_view> split_at_blanks(std::string_view line) {
    std::vector<std::string_view> words;
    for (std::size_t i = line.find_first_not_of(line_blanks); i != line.npos;) {
        const std::size_t end = line.find_first_of(line_blanks, i);
        words.push_back(line.substr(i, end - i));
        i = line.find_first_not_of(line_blanks, end);
    }
    return words;
}

}  // namespace terrace::detail
