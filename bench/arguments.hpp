#pragma once

#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/settings.hpp"

namespace terrace::bench {

/// What there is to say to a command line, if anything: help, or what is wrong with it. `more` tells what single options
/// cannot; it throws CLI::ParseError.
template <class More>
std::optional<answer> answer_to(CLI::App& app, int argc, const char* const* argv, More more) {
    try {
        app.parse(argc, argv);
        more();
        return {};
    } catch (const CLI::ParseError& e) {
        std::ostringstream out, err;
        if (app.exit(e, out, err) == 0) return answer{out.str(), 0};
        return answer{fmt::format("terrace-bench: {}\nTry: {} --help\n", e.what(), app.get_name()), 2};
    }
}

/// "a, b, c"
template <class Value>
std::string words_of(const std::map<std::string, Value>& choices) {
    std::vector<std::string> words;
    for (const auto& [word, value] : choices) words.push_back(word);
    return fmt::format("{}", fmt::join(words, ", "));
}

template <class Value>
CLI::Validator one_of(const std::map<std::string, Value>& choices) {
    return CLI::Validator(
        [choices](std::string& text) -> std::string {
            if (choices.contains(text)) return {};
            return fmt::format("{} is none of: {}", text, words_of(choices));
        },
        "");
}

/// An option whose value is one of a few words.
template <class Value>
CLI::Option* add_choice(CLI::App& app, const std::string& names, Value& target, const std::string& usual,
                        const std::map<std::string, Value>& choices) {
    return app
        .add_option_function<std::string>(
            names, [&target, choices](const std::string& word) { target = choices.at(word); }, words_of(choices))
        ->check(one_of(choices))->type_name("NAME")->default_str(usual);
}

}  // namespace terrace::bench
