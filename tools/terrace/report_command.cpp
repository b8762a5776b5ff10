#include "tools/terrace/commands.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <terrace/error.hpp>
#include <terrace/version.hpp>

#include "base/text_file.hpp"
#include "base/text_parts.hpp"
#include "report_files.hpp"
#include "statistics/late_ranks.hpp"
#include "tools/common/output.hpp"
#include "tools/common/output_file.hpp"
#include "tools/common/spelling.hpp"
#include "tools/terrace/proof.hpp"
#include "tools/terrace/report/parts.hpp"

namespace terrace::detail {

namespace {

using json = nlohmann::ordered_json;

json parsed(const std::filesystem::path& file, const std::string& text) {
    try {
        return json::parse(text);
    } catch (const json::exception& e) {
        throw input_error(file.string(), 0, 0, fmt::format("is no JSON: {}", e.what()));
    }
}

// Escapes text for <script>, which must not contain "</": JSON allows a backslash before the stroke.
std::string inside_script(std::string text) {
    for (std::size_t i = text.find("</"); i != text.npos; i = text.find("</", i + 3)) text.insert(i + 1, "\\");
    for (std::size_t i = text.find("<!"); i != text.npos; i = text.find("<!", i)) text.replace(i, 1, "\\u003c");
    return text;
}

// Returns one HTML page with its styles, scripts and data inside. The page loads nothing.
std::string page_of_parts(const json& parts) {
    std::string title;
    for (const auto& part : parts) title += (title.empty() ? "" : ", ") + part.value("name", std::string());
    return fmt::format(
        "<!DOCTYPE html>\n<!-- made by terrace {0} -->\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'; img-src data:\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Terrace: {1}</title>\n"
        "<style>\n{2}</style>\n</head>\n{3}"
        "<script type=\"application/json\" id=\"parts\">{4}</script>\n<script>\n{5}</script>\n</body>\n</html>\n",
        version(), in_markup(title), report_css, report_html, inside_script(parts.dump()), report_js);
}

// Returns the statistics in a directory about late ranks, as facts and tables for results_part. @throws input_error
json lateness_json(const std::filesystem::path& directory) {
    const std::vector<rank_statistics> files = read_statistics(directory);
    const lateness found = lateness_of(files);
    json ranks = json::array(), hosts = json::array(), stages = json::array(), parts = json::array(),
         calls = json::array();
    const auto add = [](json& rows, json row, const rank_lateness& r) {
        row["held_up_seconds"] = r.held_up;
        row["steady_seconds"] = r.steady;
        row["waited_seconds"] = r.waited;
        rows.push_back(std::move(row));
    };
    for (const auto& [rank, r] : found.ranks) add(ranks, {{"rank", rank}, {"host", r.host}}, r);
    for (const auto& [host, h] : found.hosts) add(hosts, {{"host", host}}, h);
    constexpr std::size_t most_ranks = 20;  // limit for the table
    const auto worst_first = [](json& rows) {
        std::stable_sort(rows.begin(), rows.end(),
                         [](const json& a, const json& b) { return a["steady_seconds"] > b["steady_seconds"]; });
        if (rows.size() > most_ranks) rows.erase(rows.begin() + most_ranks, rows.end());
    };
    worst_first(ranks);
    worst_first(hosts);
    for (const auto& [stage, waited] : found.stages) stages.push_back({{"stage", stage}, {"waited_seconds", waited}});
    for (const lateness::part& p : found.parts) {
        const auto worst = std::ranges::max_element(p.held_up, {}, [](const auto& each) { return each.second; });
        parts.push_back(
            {{"from_call", p.first_call}, {"worst_rank", worst->first}, {"held_up_seconds", worst->second}});
    }
    for (const auto& [size, c] : found.calls)
        calls.push_back({{"call", size.first},
                         {"bytes_from", size.second},
                         {"calls", c.calls},
                         {"seconds", c.seconds},
                         {"waited_seconds", c.waited},
                         {"percent_of_limit", c.seconds > 0 ? 100 * c.limit / c.seconds : 0}});
    json all = {
        {"verdict", found.sentence()}, {"files", files.size()}, {"ranks", ranks}, {"hosts", hosts}, {"stages", stages},
        {"over time", parts},          {"calls", calls}};
    for (const rank_statistics& file : files)
        for (const changed_plan& c : file.changes)
            all["changes of the plan"].push_back({{"from_call", c.from_call}, {"why", c.why}});
    return all;
}

}  // namespace

int report_command::run() const {
    constexpr std::size_t most_results = std::size_t{64} << 20;  // [bytes] of one file
    std::vector<plan_data> plans;
    std::vector<std::optional<json>> results;  // by file; nothing for a plan
    for (const std::filesystem::path& file : files) {
        if (std::filesystem::is_directory(file)) {
            results.push_back(lateness_json(file));
            continue;
        }
        expect_replaceable(output, {file}, force);
        const std::string text = read_text(file, most_results);
        const std::string_view start = without_leading_blanks(text);
        const bool is_json = start.starts_with('{') || start.starts_with('[');
        results.push_back(is_json ? std::optional(parsed(file, text)) : std::nullopt);
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
