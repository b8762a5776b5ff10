#include "tools/terrace/report/results_part.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "base/units.hpp"
#include "tools/common/table.hpp"

namespace terrace::detail {

namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t most_rows = 5000;  // of one table
constexpr int deepest = 6;               // objects inside objects

std::string cell_text(const json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_null()) return "-";
    if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
    if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
    return value.dump();
}

// A number whose key says what it counts, with its unit.
std::string cell_text(const std::string& key, const json& value) {
    const auto is = [&](std::string_view word) {
        return key == word || key.starts_with(fmt::format("{}_", word)) || key.ends_with(fmt::format("_{}", word));
    };
    if (value.is_number() && is("seconds")) return format_duration(value.get<double>());
    if (value.is_number_integer() && is("bytes")) return format_bytes(value.get<std::int64_t>());
    return cell_text(value);
}

bool is_plain(const json& value) { return !value.is_object() && !value.is_array(); }

bool is_table(const json& value) {
    return value.is_array() && !value.empty() &&
           std::all_of(value.begin(), value.end(), [](const json& v) { return v.is_object(); });
}

// ---- of terrace-bench -----------------------------------------------------------------------------------------------

std::string text_of(const json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() ? "-" : cell_text(key, *found);
}

struct measured_row {
    std::string collective, algorithm;
    std::int64_t bytes = 0;
    double time = 0;  // [us]
    json from;
};

// The results of one run, or of all runs of a suite: the plan's own are those of the first one.
std::vector<measured_row> rows_of(const json& results) {
    std::vector<measured_row> all;
    const auto add = [&](const json& run, const std::string& name, bool first) {
        if (!run.is_object() || !run.contains("results") || !run["results"].is_array()) return;
        for (const json& r : run["results"]) {
            if (!r.is_object() || !r.contains("time_us") || !r["time_us"].is_number() || !r.contains("bytes") ||
                !r["bytes"].is_number_integer())
                continue;
            std::string algorithm = text_of(r, "algorithm");
            if (!first && algorithm != "mpi") continue;
            if (!first) algorithm = fmt::format("mpi, {}", name);
            all.push_back({text_of(r, "collective"), algorithm, r["bytes"], r["time_us"], r});
        }
    };
    if (!results.contains("runs")) add(results, "", true);
    else if (results["runs"].is_array())
        for (std::size_t i = 0; i < results["runs"].size(); ++i) {
            const json& run = results["runs"][i];
            if (run.is_object() && run.contains("found")) add(run["found"], text_of(run, "name"), i == 0);
        }
    return all;
}

json bench_part(const std::string& file, const json& results) {
    const std::vector<measured_row> rows = rows_of(results);
    json facts = json::array();
    const json& head = results.contains("runs") && results["runs"].is_array() && !results["runs"].empty() &&
                               results["runs"][0].is_object() && results["runs"][0].contains("found")
                           ? results["runs"][0]["found"]
                           : results;
    for (const char* key : {"date", "mpi_version", "plan_name", "plan_id", "ranks", "hosts", "transport", "placement"})
        if (head.is_object() && head.contains(key)) facts.push_back({key, cell_text(head[key])});
    json collectives = json::array();
    std::vector<std::string> names;
    for (const measured_row& r : rows)
        if (std::find(names.begin(), names.end(), r.collective) == names.end()) names.push_back(r.collective);
    for (const std::string& name : names) {
        std::vector<std::int64_t> sizes;
        std::vector<std::string> algorithms;
        std::map<std::pair<std::string, std::int64_t>, double> times;
        json table = json::array();
        for (const measured_row& r : rows) {
            if (r.collective != name) continue;
            sizes.push_back(r.bytes);
            if (std::find(algorithms.begin(), algorithms.end(), r.algorithm) == algorithms.end())
                algorithms.push_back(r.algorithm);
            times[{r.algorithm, r.bytes}] = r.time * 1e-6;
            table.push_back({format_bytes(r.bytes), r.algorithm, format_duration(r.time * 1e-6),
                             text_of(r.from, "ratio"), text_of(r.from, "percent_of_limit"), text_of(r.from, "wrong")});
        }
        std::sort(sizes.begin(), sizes.end());
        sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
        json series = json::array();
        for (const std::string& algorithm : algorithms) {
            json line = json::array();
            for (const std::int64_t bytes : sizes) {
                const auto known = times.find({algorithm, bytes});
                line.push_back(known == times.end() ? json(nullptr) : json(known->second));
            }
            series.push_back({{"name", algorithm}, {"times", line}});
        }
        collectives.push_back({{"name", name}, {"sizes", sizes}, {"series", series}, {"rows", table}});
    }
    return {{"kind", "bench"},
            {"name", file},
            {"plan_id", head.is_object() ? text_of(head, "plan_id") : "-"},
            {"facts", facts},
            {"columns", {"size", "algorithm", "time", "ratio", "% of limit", "wrong"}},
            {"collectives", collectives}};
}

// ---- of anything else -----------------------------------------------------------------------------------------------

// Facts and tables, with the names of the objects that they are in.
void collect(const json& value, const std::string& name, int depth, json& facts, json& tables) {
    if (is_plain(value)) {
        facts.push_back({name, cell_text(name, value)});
    } else if (is_table(value)) {
        json columns = json::array(), rows = json::array(), numbers = json::array();
        for (const json& object : value)
            for (const auto& [key, entry] : object.items())
                if (is_plain(entry) && std::find(columns.begin(), columns.end(), key) == columns.end())
                    columns.push_back(key);
        for (const json& object : value) {
            if (rows.size() == most_rows) break;
            json row = json::array();
            for (const json& key : columns) row.push_back(text_of(object, key.get<std::string>().c_str()));
            rows.push_back(row);
        }
        for (std::size_t c = 0; c < columns.size(); ++c) {
            const std::string key = columns[c];
            const auto is_number = [&](const json& object) {
                return !object.contains(key) || object[key].is_number() || object[key].is_null();
            };
            if (std::all_of(value.begin(), value.end(), is_number)) numbers.push_back(c);
        }
        tables.push_back({{"name", name}, {"columns", columns}, {"rows", rows}, {"numbers", numbers}});
    } else if (value.is_object() && depth < deepest) {
        for (const auto& [key, entry] : value.items())
            collect(entry, name.empty() ? key : name + " " + key, depth + 1, facts, tables);
    }
}

json table_part(const std::string& file, const json& results) {
    json facts = json::array(), tables = json::array();
    collect(results, "", 0, facts, tables);
    return {{"kind", "tables"}, {"name", file}, {"facts", facts}, {"tables", tables}};
}

// ---- of the drop-in ------------------------------------------------------------------------------------------------

double number_of(const json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

// From "bytes_from" to the first size that is in it no more.
std::string size_class_text(const json& row) {
    const std::string from = text_of(row, "bytes_from"), to = text_of(row, "bytes_to");
    if (from == to || !row["bytes_to"].is_number_integer()) return from;
    const std::int64_t last = row["bytes_to"];
    const bool is_largest = last == std::numeric_limits<std::int64_t>::max();
    return fmt::format("{} to {}", from, format_bytes(is_largest ? last : last + 1));
}

json drop_in_part(const std::string& file, const json& results) {
    json part = table_part(file, results);
    part["kind"] = "drop-in";
    part["facts"] = json::array();  // sums stand in the summary
    for (const char* key : {"terrace", "mpi", "ranks", "of_all_ranks"})
        part["facts"].push_back({key, text_of(results, key)});
    std::vector<json> rows = results["rows"].get<std::vector<json>>();
    std::stable_sort(rows.begin(), rows.end(),
                     [](const json& a, const json& b) { return number_of(a, "seconds") > number_of(b, "seconds"); });
    rows.resize(std::min(rows.size(), most_rows));
    json shown = json::array();
    for (const json& r : rows)
        shown.push_back({text_of(r, "call"), text_of(r, "communicator"), size_class_text(r), text_of(r, "calls"),
                         text_of(r, "seconds"), text_of(r, "terrace_calls"), text_of(r, "tried_mpi_seconds"),
                         text_of(r, "tried_terrace_seconds"), text_of(r, "saved_seconds"), text_of(r, "passed"),
                         text_of(r, "algorithm")});
    part["columns"] = {"call",  "ranks",         "size",          "calls",
                       "time",  "by Terrace",    "MPI, in trial", "Terrace, in trial",
                       "saved", "passed to MPI", "Terrace ran"};
    part["numbers"] = {3, 4, 5, 6, 7, 8};
    part["rows"] = shown;
    part["summary"] = fmt::format(
        "Terrace ran {} of {} calls, which took {} in all, {} of it in trials. It saved {}, by what the trials found.",
        text_of(results, "terrace_calls"), text_of(results, "calls"), text_of(results, "seconds"),
        text_of(results, "trial_seconds"), text_of(results, "saved_seconds"));
    return part;
}

bool is_of_drop_in(const json& results) {
    return results.is_object() && results.contains("terrace_report") && results.contains("rows") &&
           is_table(results["rows"]);
}

bool is_of_bench(const json& results) {
    return results.is_object() && (results.contains("terrace_bench") || results.contains("terrace_suite"));
}

std::string lines_of(const json& columns, const json& rows, const json& numbers = json::array()) {
    std::string sides(columns.size(), '<');
    for (const json& c : numbers) sides[c.get<std::size_t>()] = '>';
    table t(sides);
    t.add(columns.get<std::vector<std::string>>());
    for (const json& row : rows) t.add(row.get<std::vector<std::string>>());
    return t.text();
}

}  // namespace

json results_part(const std::string& file, const json& results) {
    if (is_of_bench(results)) return bench_part(file, results);
    return is_of_drop_in(results) ? drop_in_part(file, results) : table_part(file, results);
}

std::string results_text(const std::string& file, const json& results) {
    const json part = results_part(file, results);
    std::string text = file + "\n";
    for (const json& fact : part["facts"])
        text += fmt::format("  {}: {}\n", fact[0].get<std::string>(), fact[1].get<std::string>());
    if (part["kind"] == "bench")
        for (const json& c : part["collectives"])
            text += fmt::format("\n{}\n{}", c["name"].get<std::string>(), lines_of(part["columns"], c["rows"]));
    else
        for (const json& t : part["tables"])
            text +=
                fmt::format("\n{}\n{}", t["name"].get<std::string>(), lines_of(t["columns"], t["rows"], t["numbers"]));
    return text;
}

}  // namespace terrace::detail
