#include "tools/common/table.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace terrace::detail {

std::string table::text() const {
    std::vector<std::size_t> widths(alignment_.size(), 0);
    for (const auto& row : rows_)
        for (std::size_t c = 0; c < widths.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
    std::string text;
    for (const auto& row : rows_) {
        std::string line;
        for (std::size_t c = 0; c < widths.size(); ++c)
            line += alignment_[c] == '>' ? fmt::format("  {:>{}}", row[c], widths[c])
                                         : fmt::format("  {:<{}}", row[c], widths[c]);
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + '\n';
    }
    return text;
}

}  // namespace terrace::detail
