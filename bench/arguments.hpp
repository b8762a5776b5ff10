#pragma once

#include <optional>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

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

}  // namespace terrace::bench
