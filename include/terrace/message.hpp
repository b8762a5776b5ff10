#pragma once

#include <cstdint>

namespace terrace {

/// The source of a receive that accepts messages of all ranks.
inline constexpr int any_source = -1;

/// The result of a receive.
struct received {
    int source = any_source;  ///< the rank that sent the message
    std::int64_t count = 0;   ///< elements of the message
};

}  // namespace terrace
