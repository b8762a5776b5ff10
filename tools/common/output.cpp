#include "tools/common/output.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <terrace/error.hpp>

namespace terrace::detail {

namespace {

bool reports_to_error = false;

void write_to(std::FILE* stream, std::string_view name, std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stream) != text.size() || std::fflush(stream) != 0)
        throw input_error(fmt::format("{}: standard {}", program_invocation_short_name, name), 0, 0,
                          fmt::format("cannot be written: {}", std::strerror(errno)));
}

}  // namespace

void print_text(std::string_view text) { write_to(stdout, "output", text); }

void say_text(std::string_view text) { reports_to_error ? write_to(stderr, "error", text) : print_text(text); }

void complain_text(std::string_view text) noexcept {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
}

void report_to_standard_error() noexcept { reports_to_error = true; }

}  // namespace terrace::detail
