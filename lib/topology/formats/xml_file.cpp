#include "topology/formats/xml_file.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "base/text_check.hpp"

namespace terrace::detail {

namespace {

constexpr std::size_t max_xml = 16 << 20;
constexpr std::ptrdiff_t max_parts = 300'000;  // elements and attributes
constexpr int max_depth = 128;

}  // namespace

xml_file::xml_file(const std::filesystem::path& path) : xml_file(path.string(), read_text(path, max_xml)) {}

xml_file::xml_file(std::string file, std::string content) : name(std::move(file)), text(std::move(content)) {
    check_text(text, name);
    const auto is_part = [](char c) { return c == '<' || c == '='; };
    if (std::count_if(text.begin(), text.end(), is_part) > max_parts)
        throw input_error(name, 0, 0, fmt::format("more than {} XML elements and attributes", max_parts));
    const pugi::xml_parse_result result =
        document.load_buffer(text.data(), text.size(), pugi::parse_default | pugi::parse_doctype, pugi::encoding_utf8);
    if (!result) fail(result.offset, fmt::format("not well-formed XML: {}", result.description()));

    struct depth_checker : pugi::xml_tree_walker {
        explicit depth_checker(const xml_file& f) : file(f) {}
        bool for_each(pugi::xml_node& node) override {
            if (depth() > max_depth) file.fail(node, fmt::format("nested deeper than {}", max_depth));
            return true;
        }
        const xml_file& file;
    } checker(*this);
    document.traverse(checker);
}

void xml_file::fail(const pugi::xml_node& at, const std::string& message) const { fail(at.offset_debug(), message); }

void xml_file::fail(std::ptrdiff_t offset, const std::string& message) const {
    const auto end = text.begin() + std::clamp<std::ptrdiff_t>(offset, 0, static_cast<std::ptrdiff_t>(text.size()));
    const auto line_start = std::find(std::make_reverse_iterator(end), text.rend(), '\n').base();
    throw input_error(name, static_cast<int>(std::count(text.begin(), end, '\n')) + 1,
                      static_cast<int>(end - line_start) + 1, message);
}

}  // namespace terrace::detail
