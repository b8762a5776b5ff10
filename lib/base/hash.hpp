#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace terrace::detail {

/// Returns "xxh3:" and 16 hexadecimal digits: XXH3-64 of the bytes.
std::string fingerprint_of(std::string_view bytes);

/// Returns the XXH3-64 hash of data that ranks compare.
std::uint64_t hash_of(const void* data, std::size_t bytes, std::uint64_t seed = 0) noexcept;

}  // namespace terrace::detail
