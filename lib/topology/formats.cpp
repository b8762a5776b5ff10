#include "topology/formats.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "base/letters.hpp"
#include "topology/hwloc_xml.hpp"
#include "topology/nccl_xml.hpp"
#include "topology/words.hpp"

namespace terrace {

namespace {

constexpr std::string_view blanks = " \t\r\n";

// What a file begins with: an XML prologue may be long, comments too.
std::string beginning(const std::filesystem::path& file) {
    expect_regular(file);
    errno = 0;
    std::ifstream in(file, std::ios::binary);
    std::string text(64 << 10, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (in.bad() || (!in && in.gcount() == 0 && errno != 0))
        throw input_error(file.string(), 0, 0, fmt::format("cannot be read: {}", std::strerror(errno)));
    text.resize(static_cast<std::size_t>(in.gcount()));
    return text;
}

std::string_view trimmed(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
    return text;
}

// The name of the root element of an XML file.
std::string_view root_element(std::string_view text) {
    while (text.starts_with("<?") || text.starts_with("<!")) {
        const std::string_view end = text.starts_with("<!--") ? "-->" : ">";
        const std::size_t stop = text.find(end);
        if (stop == text.npos) return {};
        text = trimmed(text.substr(stop + end.size()));
    }
    if (!text.starts_with('<')) return {};
    text.remove_prefix(1);
    constexpr std::size_t longest = 40;
    return text.substr(0, std::min(text.find_first_of(" \t\r\n/>"), longest));
}

bool is_slurm(std::string_view text) {
    while (text.starts_with('#')) text = trimmed(text.substr(std::min(text.find('\n'), text.size())));
    const std::vector<word> words = words_of(text.substr(0, text.find('\n')), 1);
    if (words.empty()) return false;
    const auto is = [&](std::string_view key) { return same_word(words.front().key, key); };
    if (!words.front().value) return is("Include") && words.size() == 2;
    return is("SwitchName") || is("BlockName") || is("Nodes") || is("Switches");
}

}  // namespace

hardware read_node(node_format format, const std::string& what) {
    switch (format) {
        case node_format::hwloc: return import_hwloc(what);
        case node_format::nccl: return import_nccl(what);
        case node_format::synthetic: return synthetic_hardware(what);
    }
    return {};
}

file_format format_of(const std::filesystem::path& file) {
    const std::string text = beginning(file);
    std::string_view start = text;
    if (start.starts_with(byte_order_mark)) start.remove_prefix(byte_order_mark.size());
    start = trimmed(start);
    if (is_slurm(start)) return file_format::slurm;
    if (!start.starts_with('<')) return file_format::yaml;
    const std::string_view root = root_element(start);
    if (root == "system") return file_format::nccl;
    // What is not even XML goes to the reader, which says where it is broken.
    if (root == "topology" || root.empty() || root.find_first_not_of("abcdefghijklmnopqrstuvwxyz") != root.npos)
        return file_format::hwloc;
    throw input_error(file.string(), 0, 0,
                      fmt::format("XML with root <{}> is not read; hwloc writes <topology>, NCCL <system>", root));
}

bool looks_synthetic(const std::string& text) {
    const std::size_t colon = text.find(':');
    return colon != text.npos && colon > 0 && colon + 1 < text.size() && text[colon + 1] >= '0' &&
           text[colon + 1] <= '9' && text.find('/') == text.npos;
}

}  // namespace terrace
