#include "executor/agreement.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>

namespace terrace {

identity identity_of(std::string_view text) {
    identity i{};
    constexpr std::size_t most = std::tuple_size_v<identity> - 1, half = most / 2;
    std::string fitting(text);
    if (text.size() > most) fitting.replace(half - 3, text.size() - 2 * half + 3, "...");
    std::copy(fitting.begin(), fitting.end(), i.begin());
    return i;
}

std::vector<std::string> gather_texts(const std::string& own, transport& net) {
    const std::size_t length = own.size();
    std::vector<std::size_t> lengths(static_cast<std::size_t>(net.size()));
    net.gather_all(&length, lengths.data(), sizeof length);
    const std::size_t most = *std::max_element(lengths.begin(), lengths.end());
    std::vector<std::string> texts(lengths.size());
    if (most == 0) return texts;
    std::string padded = own, all(most * lengths.size(), '\0');
    padded.resize(most);
    net.gather_all(padded.data(), all.data(), most);
    for (std::size_t r = 0; r < texts.size(); ++r) texts[r] = all.substr(r * most, lengths[r]);
    return texts;
}

namespace {

// "0-2, 5"
std::string rank_list(const std::vector<std::size_t>& ranks) {
    std::string text;
    for (std::size_t i = 0; i < ranks.size();) {
        std::size_t last = i;
        while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
        text += text.empty() ? "" : ", ";
        text += last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
        i = last + 1;
    }
    return text;
}

}  // namespace

std::string differences(std::span<const std::string> all) {
    std::map<std::string, std::vector<std::size_t>> ranks;
    for (std::size_t r = 0; r < all.size(); ++r) ranks[all[r]].push_back(r);
    if (ranks.size() <= 1) return {};
    std::vector<std::pair<std::string, std::vector<std::size_t>>> groups(ranks.begin(), ranks.end());
    std::stable_sort(groups.begin(), groups.end(),
                     [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
    std::string text;
    for (const auto& [value, who] : groups)
        text += fmt::format("{}{} {} {} {}", text.empty() ? "" : "; ", who.size() == 1 ? "rank" : "ranks",
                            rank_list(who), who.size() == 1 ? "has" : "have", value);
    return text;
}

void require_agreement(std::span<const identity> all) {
    std::vector<std::string> texts;
    for (const identity& i : all) texts.emplace_back(i.data());
    const std::string text = differences(texts);
    if (!text.empty()) throw plan_error("ranks differ: " + text);
}

}  // namespace terrace
