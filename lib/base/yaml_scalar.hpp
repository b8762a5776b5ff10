#pragma once

#include <string>
#include <string_view>

namespace terrace::detail {

/// Returns `text` as a YAML scalar, quoted if YAML would otherwise read another value.
std::string yaml_scalar(std::string_view text);

/// Returns `text` in quotes, as a string of YAML and JSON.
std::string in_quotes(std::string_view text);

}  // namespace terrace::detail
