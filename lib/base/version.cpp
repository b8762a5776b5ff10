#include <terrace/version.hpp>

namespace terrace {

const char* version() noexcept { return header_version; }

}  // namespace terrace
