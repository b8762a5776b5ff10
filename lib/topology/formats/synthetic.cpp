#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/text_parts.hpp"
#include "topology/formats.hpp"
#include "topology/formats/hwloc_hardware.hpp"

namespace terrace::detail {

namespace {

// True for a word, a colon and a digit, without a slash.
bool is_synthetic(const source_start& start) {
    if (start.is_file) return false;
    const std::string_view text = start.text;
    const std::size_t colon = text.find(':');
    return colon != text.npos && colon > 0 && colon + 1 < text.size() && text[colon + 1] >= '0' &&
           text[colon + 1] <= '9' && text.find('/') == text.npos;
}

// Returns the description without the attributes of types, which are in parentheses: "pu:2(indexes=numa:core)".
std::string without_attributes(std::string_view description) {
    std::string bare;
    bool inside = false;
    for (const char c : description) {
        inside |= c == '(';
        if (!inside) bare += c;
        inside &= c != ')';
    }
    return bare;
}

// Refuses machines that are too large: hwloc allocates memory for every object before it counts them.
void check_counts(const std::string& description, const std::string& bare) {
    constexpr std::int64_t most = 200'000;
    std::int64_t total = 1;
    for (std::size_t colon = 0; (colon = bare.find(':', colon)) != bare.npos; ++colon) {
        const auto count = leading_number<std::int64_t>(std::string_view(bare).substr(colon + 1)).value_or(0);
        if (count < 1) throw input_error(description, 0, 0, "a number from 1 must follow each colon");
        if (count > most / total) throw input_error(description, 0, 0, fmt::format("more than {} objects", most));
        total *= count;
    }
}

// Returns the machine of a one-line description in hwloc's notation, "package:2 core:4". @throws input_error
hardware synthetic_hardware(const std::string& description) {
    const std::string bare = without_attributes(description);
    check_counts(description, bare);
    // hwloc requires hardware threads as the last type.
    const std::size_t last = bare.find_last_of(' ') + 1;  // npos + 1 == 0
    const bool has_threads = bare.compare(last, 2, "pu") == 0 || bare.compare(last, 2, "PU") == 0;
    const std::string whole = has_threads ? description : description + " pu:1";
    const hwloc_machine m = empty_hwloc_machine();
    if (hwloc_topology_set_synthetic(m.get(), whole.c_str()) != 0 || hwloc_topology_load(m.get()) != 0)
        throw input_error(description, 0, 0,
                          "not a machine in hwloc's notation; write types from the outside in, each with how many "
                          "there are in one of the type before, as in \"package:2 core:4\"");
    return hardware_of(m.get());
}

}  // namespace

topology_format synthetic_format() {
    return {.name = "synthetic",
            .description = "a node in one line (\"package:2 core:4\")",
            .sniff = is_synthetic,
            .read = synthetic_hardware,
            .line = "package:2 core:4",
            .may_crash = true};
}

}  // namespace terrace::detail
