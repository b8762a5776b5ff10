#include "executor/agreement.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

namespace terrace {

identity identity_of(std::string_view text) {
    identity i{};
    std::copy_n(text.begin(), std::min(text.size(), i.size() - 1), i.begin());
    return i;
}

void require_agreement(std::span<const identity> all) {
    std::map<identity, std::vector<std::size_t>> ranks;
    for (std::size_t r = 0; r < all.size(); ++r) ranks[all[r]].push_back(r);
    if (ranks.size() <= 1) return;
    const auto most = std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
        return a.second.size() < b.second.size();
    });
    std::string others;
    for (const auto& [value, who] : ranks)
        if (value != most->first) others += fmt::format("; rank {} has {}", fmt::join(who, ", "), value.data());
    throw plan_error(fmt::format("ranks differ: most have {}{}", most->first.data(), others));
}

}  // namespace terrace
