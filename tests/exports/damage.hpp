#pragma once

#include <cctype>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "support/dice.hpp"

namespace terrace::detail::test {

inline std::vector<std::string> lines_in(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream from(text);
    for (std::string line; std::getline(from, line);) lines.push_back(line);
    return lines;
}

/// Changes a text in one place: removes, repeats or moves a line, or removes or replaces a character.
inline void damage_text(std::string& text, dice& d) {
    std::vector<std::string> lines = lines_in(text);
    const auto n = static_cast<std::ptrdiff_t>(d.below(lines.size()));
    switch (d.below(8)) {
        case 0: lines.erase(lines.begin() + n); break;
        case 1: lines.insert(lines.begin() + n, lines[static_cast<std::size_t>(n)]); break;
        case 2: std::swap(lines[static_cast<std::size_t>(n)], d.pick(lines)); break;
        default: {
            std::vector<std::size_t> places;
            for (std::size_t at = 0; at < text.size(); ++at)
                if (std::isspace(static_cast<unsigned char>(text[at])) == 0) places.push_back(at);
            const std::size_t at = d.pick(places);
            if (std::isdigit(static_cast<unsigned char>(text[at])) != 0 && d.below(4) > 0)
                text[at] = static_cast<char>('0' + d.below(10));
            else if (d.coin()) text.erase(at, 1);
            else text[at] = d.pick(text);
            return;
        }
    }
    text = fmt::format("{}\n", fmt::join(lines, "\n"));
}

inline void collect(nlohmann::ordered_json& value, std::vector<nlohmann::ordered_json*>& all) {
    all.push_back(&value);
    if (value.is_structured())
        for (nlohmann::ordered_json& inner : value) collect(inner, all);
}

/// Changes a value anywhere in JSON, or removes or moves an item of an array or object.
inline void damage_json(std::string& text, dice& d) {
    nlohmann::ordered_json all = nlohmann::ordered_json::parse(text);
    std::vector<nlohmann::ordered_json*> values, texts;
    collect(all, values);
    nlohmann::ordered_json& one = *d.pick(values);
    if (one.is_number_integer()) one = one.get<std::int64_t>() + (d.coin() ? 1 : -1);
    else if (one.is_array() && !one.empty() && d.coin()) one.erase(d.below(one.size()));
    else if (one.is_array() && !one.empty()) std::swap(one[d.below(one.size())], one[d.below(one.size())]);
    else if (one.is_object() && !one.empty())
        one.erase(std::next(one.begin(), static_cast<std::ptrdiff_t>(d.below(one.size()))));
    else if (one.is_string()) {
        for (nlohmann::ordered_json* v : values)
            if (v->is_string()) texts.push_back(v);
        one = nlohmann::ordered_json(*d.pick(texts));
    }
    text = all.dump();
}

}  // namespace terrace::detail::test
