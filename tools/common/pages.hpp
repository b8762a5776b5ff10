#pragma once

#include <functional>
#include <map>
#include <string>

#include <CLI/App.hpp>

namespace terrace::detail {

/// Returns text that roff prints as it stands.
std::string roff(const std::string& text);

using page_maker = std::function<std::string()>;

/// Adds the hidden option `--generate man|bash`, by which the build makes both, and pages of other names: like
/// --version it prints and ends.
void add_generate_option(CLI::App& app, const std::map<std::string, page_maker>& others = {});

}  // namespace terrace::detail
