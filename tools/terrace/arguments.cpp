#include "tools/terrace/arguments.hpp"

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/units.hpp"

namespace terrace::detail {

std::int64_t size_of(std::string_view option, std::string_view text, std::int64_t least) {
    const auto parsed = parse_bytes(text, true);
    if (!parsed || *parsed < least)
        throw usage_error(
            fmt::format("{} {}: not a size; write a number, as in 1000000, with K, M, G or T behind it for "
                        "powers of 1024, or with a unit: KiB, MiB, GiB, TiB, kB, MB, GB, TB",
                        option, text));
    return *parsed;
}

std::int64_t call_options::size() const { return size_of("--bytes", bytes, 1); }

}  // namespace terrace::detail
