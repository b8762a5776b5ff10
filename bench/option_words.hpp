#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "base/units.hpp"
#include "tools/common/answer.hpp"
#include "tools/common/spelling.hpp"

// Helpers for the options of all modes. CLI11 takes seconds to compile: only files that just parse include this.

namespace terrace::detail::bench {

/// Returns "a, b, c".
template <class Value>
std::string words_of(const std::map<std::string, Value>& choices) {
    std::vector<std::string> words;
    for (const auto& [word, value] : choices) words.push_back(word);
    return fmt::format("{}", fmt::join(words, ", "));
}

/// Returns a validator that adds nothing to the help. @param change may rewrite the text; returns an error message
template <class Change>
CLI::Validator silent(Change change) {
    return CLI::Validator(std::move(change), "");
}

/// Returns a validator for one of a few words, spelled with any case and hyphens.
template <class Value>
CLI::Validator one_of(const std::map<std::string, Value>& choices) {
    return silent([choices](std::string& text) -> std::string {
        for (const auto& [name, value] : choices)
            if (plain_letters(name) == plain_letters(text)) {
                text = name;
                return {};
            }
        return fmt::format("{} is none of: {}", text, words_of(choices));
    });
}

/// Returns nothing if `text` is one of these names, else a message: "TEXT IS_NONE_OF a, b, c".
inline std::string unless_named(const std::string& text, std::span<const std::string_view> names,
                                std::string_view is_none_of) {
    if (std::ranges::find(names, text) != names.end()) return {};
    return fmt::format("{} {} {}", text, is_none_of, fmt::join(names, ", "));
}

/// Adds an option whose value is one of a few words.
template <class Value>
CLI::Option* add_choice(CLI::App& app, const std::string& names, Value& target, const std::string& usual,
                        const std::map<std::string, Value>& choices) {
    return app
        .add_option_function<std::string>(
            names, [&target, choices](const std::string& word) { target = choices.at(word); }, words_of(choices))
        ->transform(one_of(choices))
        ->type_name("NAME")
        ->default_str(usual);
}

/// Converts text to a number of bytes before CLI11's own conversion, so an error message names the option.
inline CLI::Validator bytes_of(std::int64_t low) {
    return silent([low](std::string& text) -> std::string {
        const auto bytes = parse_bytes(text, true);
        if (!bytes || *bytes < low)
            return fmt::format("{} is no number of bytes of at least {}; write 4096, 4K, 64M, 1G", text, low);
        text = std::to_string(*bytes);
        return {};
    });
}

/// Returns a validator for integers from `low` on.
inline CLI::Validator number_of(int low) {
    CLI::Validator range = CLI::Range(low, 1'000'000'000);
    range.description("");
    return range;
}

/// Adds an option for an integer from `low` on, whose default the help shows.
inline CLI::Option* add_number(CLI::App& app, const std::string& names, int& target, int low, const std::string& help) {
    return app.add_option(names, target, help)->check(number_of(low))->type_name("N")->capture_default_str();
}

/// Adds an option for a comma-separated list. @param usual the default, as it is typed
template <class Item>
CLI::Option* add_list(CLI::App& app, const std::string& names, std::vector<Item>& target, const std::string& usual,
                      const std::string& help) {
    return app.add_option(names, target, "comma-separated list" + help)->delimiter(',')->default_str(usual);
}

/// Returns the settings of a mode, which a Line parses into its `s`, or an answer: help, or an error. With --help, the
/// value of the mode's own option may be missing.
template <class Settings, class Line>
std::variant<Settings, answer> parse_mode(const char* name, int argc, const char* const* argv) {
    Line line;
    line.app.name(name);
    const auto asks = [](std::string_view word) { return word == "--help" || word == "-h"; };
    if (const auto help = std::find_if(argv + 1, argv + argc, asks); help != argv + argc) {
        const char* const alone[] = {argv[0], *help};
        return *answer_to(line.app, 2, alone);
    }
    if (const auto said = answer_to(line.app, argc, argv)) return *said;
    return line.s;
}

/// Returns a mode's command line as a part of the program's help page.
template <class Line>
std::shared_ptr<CLI::App> page_of() {
    const auto line = std::make_shared<Line>();
    return {line, &line->app};
}

/// Adds --check. @param help names the data that is checked
inline void add_check(CLI::App& app, bool& check, const std::string& help) {
    CLI::Validator flag = CLI::IsMember({"0", "1"});
    flag.description("");
    app.add_option("-c,--check", check, "1: " + help)->check(flag)->type_name("0|1")->default_str("1");
}

inline void add_progress(CLI::App& app, bool& progress) {
    app.add_flag("--progress", progress, "show progress on stderr though it is no terminal, as under mpirun");
}

/// Adds --placement, the placement of ranks.
inline void add_placement(CLI::App& app, options::placement& place) {
    using placement = options::placement;
    add_choice<placement>(app, "--placement", place, "by-node",
                          {{"by-node", placement::by_node}, {"anywhere", placement::anywhere}})
        ->description("by-node: the plan's nodes are the machine's; anywhere: wherever ranks run, to try a plan");
}

/// Adds --transport, the transport of messages. @param help explains the value ucx
inline void add_transport(CLI::App& app, bool& ucx, const std::string& help = "ucx: messages go over UCX") {
    add_choice<bool>(app, "--transport", ucx, "mpi", {{"mpi", false}, {"ucx", true}})->description(help);
}

}  // namespace terrace::detail::bench
