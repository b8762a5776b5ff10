#pragma once

#include <string>
#include <vector>

namespace terrace::detail {

/// Lines of text in columns as wide as their widest cell.
class table {
public:
    /// `alignment`: per column '<' (left) or '>' (right).
    explicit table(std::string alignment) : alignment_(std::move(alignment)) {}

    /// As many cells as there are columns.
    void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
    /// Every line indented by two, columns two apart, no blanks at the end.
    std::string text() const;

private:
    std::string alignment_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace terrace::detail
