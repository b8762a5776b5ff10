#include "base/hash.hpp"

#include <fmt/format.h>
#include <xxhash.h>

namespace terrace::detail {

std::string fingerprint_of(std::string_view bytes) {
    return fmt::format("xxh3:{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

std::uint64_t hash_of(const void* data, std::size_t bytes, std::uint64_t seed) noexcept {
    return XXH3_64bits_withSeed(data, bytes, seed);
}

}  // namespace terrace::detail
