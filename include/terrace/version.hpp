#pragma once

#define TERRACE_VERSION_MAJOR 0
#define TERRACE_VERSION_MINOR 1
#define TERRACE_VERSION_PATCH 0

namespace terrace {

/// "major.minor.patch" of the headers a program is compiled against.
inline constexpr const char* header_version = "0.1.0";

/// "major.minor.patch" of the library a program runs with. All ranks of a communicator must run the same.
const char* version() noexcept;

}  // namespace terrace
