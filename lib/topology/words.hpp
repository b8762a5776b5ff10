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

/// The words of a line without its comment. There may be blanks around `=`, and in a VALUE in quotes.
std::vector<word> words_of(std::string_view text, int line);

}  // namespace terrace::detail
