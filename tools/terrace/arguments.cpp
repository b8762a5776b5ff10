#include "tools/terrace/arguments.hpp"

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/units.hpp"

namespace terrace::detail {

std::int64_t call_options::size() const {
    const auto parsed = parse_bytes(bytes, true);
    if (!parsed || *parsed < 1)
        throw usage_error(
            fmt::format("--bytes {}: not a size; write a number, as in 1000000, with K, M, G or T behind it for powers "
                        "of 1024 (k, Ki, KiB are the same), or with KB, MB, GB or TB for powers of 1000",
                        bytes));
    return *parsed;
}

}  // namespace terrace::detail
