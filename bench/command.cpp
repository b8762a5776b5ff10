#include "bench/command.hpp"

#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "tools/common/output.hpp"

namespace terrace::detail::bench {

std::string now_text() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

void say(const world& w, const std::string& text) {
    w.together([&] {
        if (w.first()) say_text(text);
        return true;
    });
}

}  // namespace terrace::detail::bench
