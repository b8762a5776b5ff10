#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace terrace::detail {

/// "xxh3:" and 16 hexadecimal digits: XXH3-64 of the bytes.
std::string fingerprint_of(std::string_view bytes);

/// XXH3-64, for what is compared between ranks.
std::uint64_t hash_of(const void* data, std::size_t bytes, std::uint64_t seed = 0) noexcept;

}  // namespace terrace::detail
