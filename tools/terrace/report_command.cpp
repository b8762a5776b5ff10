#include "tools/terrace/report_command.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <terrace/error.hpp>
#include <terrace/version.hpp>

#include "base/text_file.hpp"
#include "base/units.hpp"
#include "tools/common/output.hpp"
#include "tools/common/output_file.hpp"
#include "tools/terrace/proof.hpp"
#include "tools/terrace/report/page.hpp"
#include "tools/terrace/report/plan_part.hpp"
#include "tools/terrace/report/results_part.hpp"

namespace terrace::detail {

namespace {

constexpr std::size_t most_results = std::size_t{64} << 20;  // [bytes] of one file

using json = nlohmann::ordered_json;

json parsed(const std::filesystem::path& file, const std::string& text) {
    try {
        return json::parse(text);
    } catch (const json::exception& e) {
        throw input_error(file.string(), 0, 0, fmt::format("is no JSON: {}", e.what()));
    }
}

bool is_json(const std::string& text) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    return first != text.npos && (text[first] == '{' || text[first] == '[');
}

}  // namespace

int report_command::run() const {
    for (const std::filesystem::path& file : files) expect_replaceable(output, {file}, force);
    json parts = json::array();
    std::string tables;
    for (const std::filesystem::path& file : files) {
        const std::string text = read_text(file, most_results);
        if (is_json(text)) {
            const json results = parsed(file, text);
            tables += results_text(file.filename().string(), results);
            parts.push_back(results_part(file.filename().string(), results));
        } else {
            if (output.empty())
                throw usage_error(fmt::format("{} is a plan, which is shown as a page: -o report.html", file.string()));
            parts.push_back(plan_part(read_runnable_plan(file), call.what(), call.size()));
        }
    }
    if (output.empty()) {
        say_text(tables);
        return 0;
    }
    write_atomically(output, page_of_parts(parts));
    if (output != "-") say("report: {}\n", output.string());
    return 0;
}

}  // namespace terrace::detail
