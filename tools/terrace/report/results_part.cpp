#include "tools/terrace/report/parts.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/units.hpp"
#include "tools/common/table.hpp"
#include "tools/terrace/summary.hpp"

namespace terrace::detail {

namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t most_rows = 5000;  // limit for one table
constexpr std::size_t shares_on_page = 12;
constexpr int deepest = 6;  // maximum depth of nested objects

std::string cell_text(const json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_null()) return "-";
    if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
    if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
    return value.dump();
}

// Returns a number with its unit, if the key contains a unit.
std::string cell_text(const std::string& key, const json& value) {
    const auto is = [&](std::string_view word) {
        return key == word || key.starts_with(fmt::format("{}_", word)) || key.ends_with(fmt::format("_{}", word));
    };
    if (value.is_number() && is("seconds")) return format_duration(value.get<double>());
    if (value.is_number_integer() && is("bytes")) return format_bytes(value.get<std::int64_t>());
    return cell_text(value);
}

bool is_table(const json& value) {
    return value.is_array() && !value.empty() &&
           std::all_of(value.begin(), value.end(), [](const json& v) { return v.is_object(); });
}

// ---- results of terrace-bench ---------------------------------------------------------------------------------------

constexpr std::string_view ours = "hierarchical";  // name of the plan's results

json entry_of(const json& object, const char* key) { return object.contains(key) ? object[key] : json(nullptr); }

std::string text_of(const json& object, const char* key) { return cell_text(key, entry_of(object, key)); }

double number_of(const json& object, const char* key) {
    const json found = entry_of(object, key);
    return found.is_number() ? found.get<double>() : 0;
}

struct measured_row {
    std::string collective, algorithm;
    std::int64_t bytes = 0;
    double time = 0;  // [s]
    json from;
};

// Returns all runs of a suite, or the one run of these results.
std::vector<json> runs_of(const json& results) {
    if (!results.contains("runs")) return {{{"name", ""}, {"found", results}}};
    std::vector<json> all;
    for (const json& run : results["runs"])
        if (entry_of(run, "found").is_object()) all.push_back(run);
    return all;
}

// Returns the name of a line; empty if the first run already has the line. The first run has the plan and its
// baselines, the others have MPI in other settings.
std::string line_name(const std::string& algorithm, const std::string& run, bool is_first) {
    if (is_first) return algorithm;
    return algorithm != "mpi" ? "" : run == "mpi" ? run : fmt::format("mpi, {}", run);
}

std::vector<measured_row> rows_of(const std::vector<json>& runs) {
    std::vector<measured_row> all;
    for (const json& run : runs)
        for (const json& r : entry_of(run["found"], "results")) {
            const std::string name = line_name(text_of(r, "algorithm"), text_of(run, "name"), &run == &runs.front());
            if (!name.empty() && entry_of(r, "time_us").is_number() && entry_of(r, "bytes").is_number_integer())
                all.push_back({text_of(r, "collective"), name, r["bytes"], number_of(r, "time_us") * 1e-6, r});
        }
    return all;
}

// The rows of one collective, by algorithm and size.
struct measured {
    std::string collective;
    std::vector<std::int64_t> sizes;      // ascending
    std::vector<std::string> algorithms;  // in order of appearance
    std::map<std::pair<std::string, std::int64_t>, const measured_row*> rows;

    const measured_row* at(std::string_view algorithm, std::int64_t bytes) const {
        const auto known = rows.find({std::string(algorithm), bytes});
        return known == rows.end() ? nullptr : known->second;
    }
};

std::vector<measured> by_collective(const std::vector<measured_row>& rows) {
    std::vector<measured> all;
    const auto add_once = [](auto& list, const auto& value) {
        if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
    };
    for (const measured_row& r : rows) {
        auto of = std::find_if(all.begin(), all.end(), [&](const measured& m) { return m.collective == r.collective; });
        if (of == all.end()) of = all.insert(all.end(), {r.collective, {}, {}, {}});
        add_once(of->sizes, r.bytes);
        add_once(of->algorithms, r.algorithm);
        of->rows[{r.algorithm, r.bytes}] = &r;
    }
    for (measured& m : all) std::sort(m.sizes.begin(), m.sizes.end());
    return all;
}

// Returns the plan's predictions by size; empty if there is no plan, or if it lacks the collective.
std::vector<double> predictions(const measured& m, const plan_data* plan) {
    const std::optional<collective> what = parse_collective(m.collective);
    std::vector<double> times;
    if (plan != nullptr && what && plan->rules.contains(*what))
        for (const std::int64_t bytes : m.sizes) times.push_back(modelled_time(*plan, *what, bytes));
    return times;
}

// Returns the limits by size; 0 if the results have none.
std::vector<double> limits(const measured& m) {
    std::vector<double> all;
    for (const std::int64_t bytes : m.sizes) {
        double found = 0;
        for (const std::string& algorithm : m.algorithms)
            if (const measured_row* r = m.at(algorithm, bytes); r != nullptr && found == 0)
                found = r->time * number_of(r->from, "percent_of_limit") / 100;
        all.push_back(found);
    }
    return all;
}

// Returns the plan's times with its predictions and the limit, and the relative times of the others in the same run.
json comparison(const measured& m, const std::vector<double>& predicted, const std::vector<double>& limit) {
    json columns{"size", "measured"}, rows = json::array();
    if (!predicted.empty()) columns.insert(columns.end(), {"predicted", "measured / predicted"});
    columns.insert(columns.end(), {"of limit", "limit", "half of all"});
    for (const std::string& algorithm : m.algorithms)
        if (algorithm != ours) columns.push_back(algorithm);
    for (std::size_t i = 0; i < m.sizes.size(); ++i) {
        const measured_row* own = m.at(ours, m.sizes[i]);
        if (own == nullptr) continue;
        const auto quartile = [&](const char* key) { return format_duration(number_of(own->from, key) * 1e-6); };
        json row{format_bytes(m.sizes[i]), format_duration(own->time)};
        if (!predicted.empty())
            row.insert(row.end(), {format_duration(predicted[i]), ratio_text(own->time, predicted[i])});
        row.insert(row.end(), {percent_of_limit(limit[i], own->time), limit[i] > 0 ? format_duration(limit[i]) : "-",
                               fmt::format("{} to {}", quartile("time_us_p25"), quartile("time_us_p75"))});
        for (const std::string& algorithm : m.algorithms)
            if (algorithm != ours) {
                const measured_row* other = m.at(algorithm, m.sizes[i]);
                const double ratio = other == nullptr ? 0 : number_of(other->from, "ratio");
                row.push_back(ratio > 0 ? ratio_text(ratio, 1) : "-");
            }
        rows.push_back(row);
    }
    return {{"columns", columns}, {"rows", rows}};
}

json measured_json(const measured& m, const plan_data* plan) {
    const std::vector<double> predicted = predictions(m, plan), limit = limits(m);
    json series = json::array(), rows = json::array();
    for (const std::string& algorithm : m.algorithms) {
        json times = json::array();
        for (const std::int64_t bytes : m.sizes) {
            const measured_row* r = m.at(algorithm, bytes);
            times.push_back(r == nullptr ? json(nullptr) : json(r->time));
            if (r != nullptr)
                rows.push_back({format_bytes(bytes), algorithm, format_duration(r->time), text_of(r->from, "ratio"),
                                text_of(r->from, "percent_of_limit"), text_of(r->from, "wrong")});
        }
        series.push_back({{"name", algorithm}, {"role", algorithm == ours ? "plan" : "other"}, {"times", times}});
        if (algorithm == ours && !predicted.empty())
            series.push_back({{"name", "predicted"}, {"role", "predicted"}, {"times", predicted}});
    }
    return {{"name", m.collective},
            {"sizes", m.sizes},
            {"series", series},
            {"limits", limit},
            {"comparison", comparison(m, predicted, limit)},
            {"rows", rows}};
}

json bench_part(const std::string& file, const json& results, std::span<const plan_data> plans) {
    const std::vector<json> runs = runs_of(results);
    const json head = runs.empty() ? json::object() : runs.front()["found"];
    json facts = json::array(), collectives = json::array();
    for (const char* key : {"date", "mpi_version", "plan_name", "plan_id", "ranks", "hosts", "transport", "placement"})
        if (head.contains(key)) facts.push_back({key, text_of(head, key)});
    const auto plan = std::ranges::find(plans, text_of(head, "plan_id"), &plan_data::id);
    const std::vector<measured_row> rows = rows_of(runs);
    for (const measured& m : by_collective(rows))
        collectives.push_back(measured_json(m, plan == plans.end() ? nullptr : &*plan));
    json notes = json::array();
    if (plan == plans.end())
        notes.push_back("What the plan predicts is not here: no plan on this page is the one that these ranks ran.");
    for (const json& line : entry_of(results, "left_out")) notes.push_back("Without " + cell_text(line));
    return {{"kind", "bench"},
            {"name", file},
            {"facts", facts},
            {"notes", notes},
            {"columns", {"size", "algorithm", "time", "ratio", "% of limit", "wrong"}},
            {"numbers", {2, 3, 4, 5}},
            {"collectives", collectives}};
}

// ---- other results --------------------------------------------------------------------------------------------------

// Collects facts and tables, named after the objects around them.
void collect(const json& value, const std::string& name, int depth, json& facts, json& tables) {
    if (!value.is_structured()) {
        facts.push_back({name, cell_text(name, value)});
    } else if (is_table(value)) {
        json columns = json::array(), rows = json::array(), numbers = json::array();
        for (const json& object : value)
            for (const auto& [key, entry] : object.items())
                if (!entry.is_structured() && std::find(columns.begin(), columns.end(), key) == columns.end())
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
            columns[c] = key.substr(0, key.find("_seconds"));  // cells contain the unit
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

// ---- results of the drop-in ----------------------------------------------------------------------------------------

// Returns the range from "bytes_from" to the first size that is no longer in the class.
std::string size_class_text(const json& row) {
    std::string from = text_of(row, "bytes_from");
    const std::string to = text_of(row, "bytes_to");
    if (from == to || !row["bytes_to"].is_number_integer()) return from;
    const std::int64_t last = row["bytes_to"];
    const bool is_largest = last == std::numeric_limits<std::int64_t>::max();
    return fmt::format("{} to {}", from, format_bytes(is_largest ? last : last + 1));
}

// Returns the row's name, and the seconds with Terrace and with MPI.
json share_of(const json& row) {
    const std::string size = size_class_text(row);
    return {
        fmt::format("{}{}, {}", text_of(row, "call"), size == "-" ? "" : " of " + size, text_of(row, "communicator")),
        number_of(row, "terrace_seconds"), number_of(row, "mpi_seconds")};
}

json drop_in_part(const std::string& file, const json& results) {
    json part = table_part(file, results);
    part["kind"] = "drop-in";
    part["facts"] = json::array();  // the summary has the sums
    for (const char* key : {"terrace", "mpi", "ranks", "of_all_ranks"})
        part["facts"].push_back({key, text_of(results, key)});
    std::vector<json> rows = results["rows"].get<std::vector<json>>();
    std::stable_sort(rows.begin(), rows.end(),
                     [](const json& a, const json& b) { return number_of(a, "seconds") > number_of(b, "seconds"); });
    rows.resize(std::min(rows.size(), most_rows));
    json shown = json::array(), shares = json::array();
    for (const json& r : rows) {
        std::string passed = text_of(r, "passed");
        std::replace(passed.begin(), passed.end(), '_', ' ');
        if (shares.size() < shares_on_page) shares.push_back(share_of(r));
        shown.push_back({text_of(r, "call"), text_of(r, "communicator"), size_class_text(r), text_of(r, "calls"),
                         text_of(r, "seconds"), text_of(r, "terrace_calls"), text_of(r, "tried_mpi_seconds"),
                         text_of(r, "tried_terrace_seconds"), text_of(r, "saved_seconds"), passed,
                         text_of(r, "algorithm")});
    }
    part["shares"] = shares;
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

}  // namespace

json results_part(const std::string& file, const json& results, std::span<const plan_data> plans) {
    if (results.contains("terrace_bench") || results.contains("terrace_suite")) return bench_part(file, results, plans);
    if (results.contains("terrace_report") && results.contains("rows") && is_table(results["rows"]))
        return drop_in_part(file, results);
    return table_part(file, results);
}

std::string results_text(const json& part) {
    std::string text = part["name"].get<std::string>() + "\n";
    for (const json& fact : part["facts"])
        text += fmt::format("  {}: {}\n", fact[0].get<std::string>(), fact[1].get<std::string>());
    const auto add = [&](const json& of, const json& columns, const json& rows, const json& numbers) {
        std::string sides(columns.size(), '<');
        for (const json& c : numbers) sides[c.get<std::size_t>()] = '>';
        table t(sides);
        t.add(columns.get<std::vector<std::string>>());
        for (const json& row : rows) t.add(row.get<std::vector<std::string>>());
        text += fmt::format("\n{}\n{}", of["name"].get<std::string>(), t.text());
    };
    if (part["kind"] == "bench")
        for (const json& c : part["collectives"]) add(c, part["columns"], c["rows"], part["numbers"]);
    else
        for (const json& t : part["tables"]) add(t, t["columns"], t["rows"], t["numbers"]);
    return text;
}

}  // namespace terrace::detail
