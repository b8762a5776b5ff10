#include "tools/common/output.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <terrace/error.hpp>

namespace terrace::detail {

void say_text(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
        throw input_error(fmt::format("{}: standard output", program_invocation_short_name), 0, 0,
                          fmt::format("cannot be written: {}", std::strerror(errno)));
}

}  // namespace terrace::detail
