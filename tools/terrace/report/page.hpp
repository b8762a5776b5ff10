#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace terrace::detail {

/// One page of HTML with all that it needs inside: styles, scripts and data. It loads nothing.
/// @param parts as from plan_part and results_part
std::string page_of_parts(const nlohmann::ordered_json& parts);

}  // namespace terrace::detail
