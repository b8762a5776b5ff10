#include "base/hash.hpp"

#include <fmt/format.h>
#include <xxhash.h>

namespace terrace {

std::string fingerprint_of(std::string_view bytes) {
    return fmt::format("xxh3:{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

}  // namespace terrace
