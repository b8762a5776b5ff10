#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text_file.hpp"
#include "base/yaml_scalar.hpp"

namespace terrace::detail {

/// A value in a YAML file, with its position. Reading is strict: missing values, values of another kind, and unknown or
/// duplicate keys throw input_error with file, line and column. Copies share one document.
class document {
public:
    enum class kind { scalar, sequence, map };

    static constexpr std::size_t max_bytes = 8 << 20;  ///< of a file

    /// Parses one YAML document. @throws input_error on a missing or oversized (8 MiB) file, bytes that are not UTF-8,
    /// control characters, bad syntax, duplicate keys, empty values, anchors, aliases, tags, a second document, nesting
    /// deeper than 64, more than 500,000 values or as many indicators ([ , : ...)
    static document read_file(const std::filesystem::path& file) {
        return parse(read_text(file, max_bytes), file.string());
    }
    static document parse(std::string_view text, const std::string& file_name);

    document::kind what() const noexcept;
    bool is_scalar() const noexcept { return what() == kind::scalar; }
    bool is_sequence() const noexcept { return what() == kind::sequence; }
    bool is_map() const noexcept { return what() == kind::map; }

    /// For scalars; other values throw input_error. `low` and `high` are inclusive.
    const std::string& text() const;
    std::int64_t integer(std::int64_t low, std::int64_t high) const;
    double bandwidth() const;  ///< [B/s]
    double duration() const;   ///< [s]
    std::int64_t bytes() const;

    /// For sequences; other values throw input_error.
    std::vector<document> items() const;

    /// For maps; other values throw input_error.
    bool has(std::string_view key) const;
    document at(std::string_view key) const;
    std::vector<std::pair<std::string, document>> entries() const;
    /// Throws input_error at the first key that is not in `known`. The message lists the known keys.
    void allow_only(std::span<const std::string_view> known) const;
    void allow_only(std::initializer_list<std::string_view> known) const {
        allow_only(std::span<const std::string_view>(known.begin(), known.size()));
    }

    /// Throws input_error at this value's position.
    [[noreturn]] void fail(const std::string& message) const;
    const std::string& file() const noexcept;
    int line() const noexcept;
    int column() const noexcept;

private:
    struct value;
    explicit document(std::shared_ptr<const value> v) : value_(std::move(v)) {}
    friend struct document_builder;
    std::shared_ptr<const value> value_;
};

/// Checks the version of a file's format, which must be 1 to `newest`.
/// @throws input_error otherwise; for a newer version the message ends with `advice`
void expect_format(const document& number, int newest, std::string_view advice);

}  // namespace terrace::detail
