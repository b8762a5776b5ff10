#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <terrace/mpi_world.hpp>

#include "transport/agreement.hpp"

namespace terrace::detail {

std::string error_lines(std::string_view program, std::vector<std::pair<int, std::string>> said, int ranks) {
    std::sort(said.begin(), said.end());
    std::vector<std::pair<std::string, std::vector<int>>> groups;
    for (const auto& [rank, what] : said) {
        const auto same = [&text = what](const auto& g) { return g.first == text; };
        auto group = std::find_if(groups.begin(), groups.end(), same);
        if (group == groups.end()) group = groups.insert(group, {what, {}});
        group->second.push_back(rank);
    }
    std::string lines;
    for (const auto& [what, who] : groups)
        lines += fmt::format("{}: {}{}\n", program, ranks > 1 ? ranks_named(who) + ": " : "", what);
    return lines;
}

}  // namespace terrace::detail
