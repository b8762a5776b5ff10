#pragma once

#include <string>
#include <vector>

namespace terrace::detail {

/// Lines of text in columns as wide as their widest cell.
class table {
public:
    /// `alignment`: per column '<' (left) or '>' (right).
    explicit table(std::string alignment) : alignment_(std::move(alignment)) {}

    /// Adds a row, with one cell for each column.
    void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
    /// Returns all rows. Lines are indented by two, columns are two apart, and lines have no trailing blanks.
    std::string text() const;

private:
    std::string alignment_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace terrace::detail
