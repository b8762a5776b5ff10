#pragma once

#include <functional>
#include <map>
#include <string>

#include <CLI/App.hpp>

namespace terrace::detail {

/// Returns text that roff prints unchanged.
std::string roff(const std::string& text);

using page_maker = std::function<std::string()>;

/// Adds the hidden option `--generate NAME`, with which the build makes `man`, `bash` and other pages. Like --version,
/// the option prints its page and ends the program.
void add_generate_option(CLI::App& app, const std::map<std::string, page_maker>& others = {});

}  // namespace terrace::detail
