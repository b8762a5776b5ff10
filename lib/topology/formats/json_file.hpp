#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <terrace/error.hpp>

#include "topology/network.hpp"

namespace terrace::detail {

/// A value that a reader keeps of a JSON file, with its position: the start of a map or list, the end of another value.
/// The parser skips values that are not kept, so a large file costs no memory.
struct json_value {
    enum class kind { map, list, text, number, flag, other };  // other: null

    text_position where;
    kind what = kind::other;
    std::string text = {};  ///< the text, the digits, or "true" or "false"
    std::vector<std::pair<std::string, json_value>> entries = {};
    std::vector<json_value> items = {};

    /// Returns the entry of a map; null if there is none.
    const json_value* find(std::string_view key) const noexcept {
        const auto found = std::ranges::find_if(entries, [&](const auto& e) { return e.first == key; });
        return found == entries.end() ? nullptr : &found->second;
    }
};

/// A well-formed JSON file.
class json_file {
public:
    /// Returns true if the entry `key` of a map is kept. The map, or a list around it, is the entry `of` of an outer
    /// map; "" stands for the map of the file itself. A null filter keeps every entry.
    using filter = bool (*)(std::string_view of, std::string_view key);

    /// @throws input_error, with line and column if known, for a missing file, more than 64 MiB, bytes that are not
    /// UTF-8, bad syntax, nesting deeper than 64, over `most_values` kept values (default 500,000), or a repeated key
    json_file(const std::string& path, filter keep);
    json_file(const std::string& path, const std::string& text, filter keep, std::size_t most_values);

    const json_value& root() const noexcept { return root_; }
    /// Returns the entry `key` of a map. @throws input_error if there is no such entry of the kind `what`
    const json_value& at(const json_value& map, std::string_view key, json_value::kind what) const;
    [[noreturn]] void fail(const json_value& at, const std::string& message) const {
        throw input_error(path_, at.where.line, at.where.column, message);
    }

private:
    friend struct json_events;
    std::string path_;
    json_value root_;
};

}  // namespace terrace::detail
