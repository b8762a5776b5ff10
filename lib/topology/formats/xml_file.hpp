#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include <pugixml.hpp>

namespace terrace::detail {

/// A well-formed XML file in UTF-8, of limited size (16 MiB) and depth (128).
struct xml_file {
    /// @throws input_error if the file is missing, too large or not well-formed, with line and column if they are known
    explicit xml_file(const std::filesystem::path& path);
    xml_file(std::string name, std::string text);

    /// @throws input_error at the element's line and column
    [[noreturn]] void fail(const pugi::xml_node& at, const std::string& message) const;

    std::string name;
    std::string text;
    pugi::xml_document document;

private:
    [[noreturn]] void fail(std::ptrdiff_t offset, const std::string& message) const;
};

}  // namespace terrace::detail
