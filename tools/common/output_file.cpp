#include "tools/common/output_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include <unistd.h>

#include <fmt/format.h>
#include <CLI/App.hpp>

#include <terrace/error.hpp>

#include "base/letters.hpp"
#include "base/text_file.hpp"
#include "tools/common/output.hpp"

namespace terrace::detail {

namespace {

// Marks in YAML, in JSON, and in comments of any format.
constexpr std::array<std::string_view, 3> marks{"by terrace", "made_by: terrace", "\"made_by\": \"terrace"};

bool is_made_by_terrace(const std::filesystem::path& file) {
    std::string text(4096, '\0');
    std::ifstream in(file, std::ios::binary);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    text = in_lower_case(std::move(text));
    return text.empty() ||
           std::any_of(marks.begin(), marks.end(), [&](std::string_view mark) { return text.find(mark) != text.npos; });
}

}  // namespace

CLI::Option* add_output(CLI::App& command, const std::string& names, std::filesystem::path& file,
                        const std::string& description) {
    return command.add_option_function<std::string>(
        names,
        [&file](const std::string& name) {
            file = name;
            if (is_printed(file)) report_to_standard_error();
        },
        description + "; - prints it");
}

bool is_printed(const std::filesystem::path& file) { return file.empty() || file == "-"; }

void write_output(const std::filesystem::path& file, std::string_view content) {
    if (is_printed(file)) print_text(content);
    else write_atomically(file, content);
}

void expect_replaceable(const std::filesystem::path& file, std::initializer_list<std::filesystem::path> inputs,
                        bool force) {
    std::error_code ignored;
    if (is_printed(file)) return;
    const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
    if (!std::filesystem::is_directory(folder, ignored) || std::filesystem::is_directory(file, ignored))
        throw input_error(file.string(), 0, 0, "cannot be written; name a file in a folder that exists");
    if (::access(folder.c_str(), W_OK) != 0)
        throw input_error(file.string(), 0, 0,
                          fmt::format("cannot be written; its folder takes no file: {}", std::strerror(errno)));
    if (!std::filesystem::is_regular_file(file, ignored)) return;
    for (const std::filesystem::path& input : inputs)
        if (std::filesystem::equivalent(file, input, ignored))
            throw usage_error(fmt::format("{}: this is the input, and is not overwritten; name another file to write",
                                          file.string()));
    if (!force && !is_made_by_terrace(file))
        throw usage_error(
            fmt::format("{}: this file exists and was not written by Terrace; name another file, or "
                        "replace it with --force",
                        file.string()));
}

void add_force(CLI::App& command, bool& force) {
    command.add_flag("--force", force, "replace existing files even if Terrace did not write them");
}

}  // namespace terrace::detail
