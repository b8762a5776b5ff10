#include "tools/arguments.hpp"

#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/units.hpp"

namespace terrace {

namespace {

std::string collective_names() {
    std::vector<std::string_view> names;
    for (const collective c : all_collectives) names.push_back(to_string(c));
    return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::int64_t size_of(std::string_view option, std::string_view text, std::int64_t least) {
    const auto parsed = parse_bytes(text, true);
    if (!parsed || *parsed < least)
        throw usage_error(fmt::format("{} {}: not a size; write it as 64MiB, 64K or 1000000", option, text));
    return *parsed;
}

std::int64_t call_options::size() const { return size_of("--bytes", bytes, 1); }

void add_call_options(CLI::App& command, call_options& o) {
    command.add_option("--bytes", o.bytes, "message size, that of all blocks together; K M G are binary")
        ->capture_default_str();
    command.add_option("--collective", o.collective, "one of " + collective_names())
        ->check([](const std::string& text) {
            return parse_collective(text) ? "" : fmt::format("\"{}\" is none of {}", text, collective_names());
        })
        ->capture_default_str();
}

}  // namespace terrace
