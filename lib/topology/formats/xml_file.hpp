#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include <pugixml.hpp>

namespace terrace::detail {

/// An XML file that is well-formed, UTF-8, and of a size and depth that no reader chokes on.
struct xml_file {
    /// @throws input_error with line and column, for anything wrong with it
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
