#pragma once

#include <string>
#include <string_view>

namespace terrace::detail::test {

/// Returns a normalised plan file of format 1 as a plan file of format 2, the only one that programs read.
std::string convert_v1(std::string_view plan);

}  // namespace terrace::detail::test
