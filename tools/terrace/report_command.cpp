#include "tools/terrace/commands.hpp"

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <terrace/error.hpp>
#include <terrace/version.hpp>

#include "base/text_file.hpp"
#include "base/units.hpp"
#include "tools/common/output.hpp"
#include "tools/common/output_file.hpp"
#include "tools/terrace/proof.hpp"
#include "tools/terrace/report/parts.hpp"

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
    std::vector<plan_data> plans;
    std::vector<std::optional<json>> results;  // by file; of a plan nothing
    for (const std::filesystem::path& file : files) {
        if (std::filesystem::is_directory(file)) {
            results.push_back(lateness_json(file));
            continue;
        }
        expect_replaceable(output, {file}, force);
        const std::string text = read_text(file, most_results);
        results.push_back(is_json(text) ? std::optional(parsed(file, text)) : std::nullopt);
        if (results.back()) continue;
        if (output.empty())
            throw usage_error(fmt::format("{} is a plan, which is shown as a page: -o report.html", file.string()));
        plans.push_back(read_runnable_plan(file));
    }
    json parts = json::array();
    for (std::size_t i = 0, plan = 0; i < files.size(); ++i)
        parts.push_back(results[i] ? results_part(files[i].filename().string(), *results[i], plans)
                                   : plan_part(plans[plan++], call.what(), call.size()));
    if (output.empty()) {
        for (const json& part : parts) say_text(results_text(part));
        return 0;
    }
    write_output(output, page_of_parts(parts));
    if (output != "-") say("report: {}\n", output.string());
    return 0;
}

}  // namespace terrace::detail
