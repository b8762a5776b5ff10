#pragma once

#include <cstddef>

namespace terrace::detail {

/// memcpy. One that streams writes past the caches, for what nobody reads soon; nobody is to be told that it is there
/// before end_streams().
void copy(void* to, const void* from, std::size_t bytes, bool streams) noexcept;

/// Orders all that copies have streamed before all that is written after this.
void end_streams() noexcept;

}  // namespace terrace::detail
