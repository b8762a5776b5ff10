#pragma once

#include <cstddef>

namespace terrace {

/// memcpy. One that streams writes past the caches, for what nobody reads soon.
void copy(void* to, const void* from, std::size_t bytes, bool streams) noexcept;

}  // namespace terrace
