#pragma once

#include <string>
#include <string_view>

namespace terrace::detail {

/// `text` as a YAML scalar: quoted where it would otherwise read as something else.
std::string yaml_scalar(std::string_view text);

/// `text` in quotes, as a string of YAML and JSON.
std::string in_quotes(std::string_view text);

}  // namespace terrace::detail
