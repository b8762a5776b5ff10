#pragma once

#include <string>
#include <string_view>

namespace terrace {

/// "xxh3:" and 16 hexadecimal digits: XXH3-64 of the bytes.
std::string fingerprint_of(std::string_view bytes);

}  // namespace terrace
