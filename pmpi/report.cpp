#include "pmpi/report.hpp"

#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <terrace/mpi.hpp>
#include <terrace/version.hpp>

#include "base/index.hpp"
#include "base/keep_for_ever.hpp"
#include "pmpi/real.hpp"
#include "pmpi/settings.hpp"

namespace terrace::detail::pmpi {

namespace {

using json = nlohmann::ordered_json;

// Rows with equal keys are merged: those of communicators of the same ranks.
using row_key = std::tuple<std::string, call_kind, form, int>;

struct merged_row {
    int ranks = 0, communicators = 0;
    std::uint64_t bytes = 0;
    tally by_mpi, by_terrace;
    std::array<std::uint64_t, reasons> why{};
    int tried = 0, chose_terrace = 0, trial_calls = 0;  // finished trials, those that chose Terrace, calls of all
    trial::durations agreed;                            // of the last trial
    double spent = 0, saved = 0;
    std::string algorithm;
};

using merged_rows = std::map<row_key, merged_row>;

merged_rows& closed() {
    static auto& all = kept_for_ever(merged_rows());
    return all;
}

void add(tally& to, const tally& more) {
    to.calls += more.calls;
    to.seconds += more.seconds;
}

// Only rank 0 of a communicator adds its rows.
void merge(merged_rows& into, const attached& on) {
    if (on.rank != 0) return;
    on.rows.each([&](call_kind what, form is, int c, const row& r) {
        if (r.by_mpi.calls + r.by_terrace.calls == 0) return;
        merged_row& to = into[{on.label, what, is, c}];
        to.ranks = on.size;
        ++to.communicators;
        to.bytes += r.bytes;
        add(to.by_mpi, r.by_mpi);
        add(to.by_terrace, r.by_terrace);
        for (std::size_t i = 0; i < reasons; ++i) to.why[i] += r.why[i];
        to.trial_calls += r.tried.calls();
        to.spent += r.tried.spent();
        if (!r.algorithm.empty()) to.algorithm = r.algorithm;
        if (!r.tried.settled() || r.tried.calls() == 0) return;
        ++to.tried;
        to.agreed = r.tried.agreed();
        if (r.tried.chosen() == runner::mpi) return;
        ++to.chose_terrace;
        to.saved += static_cast<double>(r.by_terrace.calls) * to.agreed.mpi - r.by_terrace.seconds;
    });
}

json seconds(double value) {
    return current_settings().times() ? json(std::round(value * 1e9) / 1e9) : json();  // rounded to nanoseconds
}

std::string text_of(const std::array<std::uint64_t, reasons>& why) {
    std::string text;
    for (std::size_t i = 0; i < reasons; ++i)
        if (why[i] > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", passed_names[i], why[i]);
    return text;
}

// Returns a row without nested values, for tables.
json to_json(const row_key& key, const merged_row& r) {
    const auto& [label, what, is, c] = key;
    constexpr std::pair<const char*, const char*> around[forms] = {{"", ""}, {"i", ""}, {"", "_init"}};
    const auto [before, behind] = around[static_cast<std::size_t>(is)];
    const auto known = [](bool has, auto value) { return has ? json(value) : json(); };
    const bool sized = has_size(what), tried = r.tried > 0;
    return {{"call", fmt::format("{}{}{}", before, to_string(what), behind)},
            {"communicator", label},
            {"bytes_from", known(sized, least_of_class(c))},
            {"bytes_to", known(sized, c == 0 ? 0 : 2 * least_of_class(c) - 1)},
            {"calls", r.by_mpi.calls + r.by_terrace.calls},
            {"seconds", seconds(r.by_mpi.seconds + r.by_terrace.seconds)},
            {"chosen", known(tried, 2 * r.chose_terrace > r.tried ? "terrace" : "mpi")},
            {"saved_seconds", r.chose_terrace > 0 ? seconds(r.saved) : json()},
            {"tried_mpi_seconds", known(tried, r.agreed.mpi)},
            {"tried_terrace_seconds", known(tried, r.agreed.terrace)},
            {"mpi_calls", r.by_mpi.calls},
            {"mpi_seconds", seconds(r.by_mpi.seconds)},
            {"terrace_calls", r.by_terrace.calls},
            {"terrace_seconds", seconds(r.by_terrace.seconds)},
            {"passed", text_of(r.why)},
            {"algorithm", known(!r.algorithm.empty(), r.algorithm)},
            {"trial_calls", r.trial_calls},
            {"trial_seconds", r.spent},
            {"ranks", r.ranks},
            {"communicators", r.communicators},
            {"bytes", known(sized, r.bytes)}};
}

// Returns the sum over all rows, for the head of the report.
template <class Number>
Number sum_of(const json& rows, const char* key) {
    Number sum = 0;
    for (const json& row : rows)
        if (!row.at(key).is_null()) sum += row.at(key).get<Number>();
    return sum;
}

json own_rows(bool& world_called) {
    merged_rows all = closed();
    world_called = false;
    each_attached([&](const attached& on) {
        merge(all, on);
        world_called = world_called || on.is_world;
    });
    json rows = json::array();
    for (const auto& [key, r] : all) rows.push_back(to_json(key, r));
    return rows;
}

// Returns the rows of all ranks, on rank 0. Collective over MPI_COMM_WORLD.
json gather(const json& own, int rank, int size) {
    const std::string text = own.dump();
    const int mine = static_cast<int>(text.size());
    std::vector<int> lengths(at(size)), begins(lengths.size());
    real.gather(&mine, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0) std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), 0);
    std::string all(rank == 0 ? at(begins.back() + lengths.back()) : 0, '\0');
    PMPI_Gatherv(text.data(), mine, MPI_CHAR, all.data(), lengths.data(), begins.data(), MPI_CHAR, 0, MPI_COMM_WORLD);
    json rows = json::array();
    for (std::size_t r = 0; rank == 0 && r < lengths.size(); ++r)
        for (json& one : json::parse(all.substr(at(begins[r]), at(lengths[r])))) rows.push_back(std::move(one));
    return rows;
}

std::string text_of(const std::vector<int>& ranks) {
    std::string text;
    for (std::size_t i = 0; i < ranks.size();) {
        std::size_t end = i + 1;
        while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
        text += fmt::format("{}{}", text.empty() ? "" : ",", ranks[i]);
        if (end - i > 1) text += fmt::format("-{}", ranks[end - 1]);
        i = end;
    }
    return text;
}

}  // namespace

std::string label_of(const attached& on) {
    if (on.is_world) return "world";
    if (on.is_inter) return "intercommunicator";
    MPI_Group world = MPI_GROUP_NULL, own = MPI_GROUP_NULL;
    const std::vector<int> ranks = numbers_below(on.size);
    std::vector<int> of_world(ranks.size());
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Comm_group(on.comm, &own);
    PMPI_Group_translate_ranks(own, on.size, ranks.data(), world, of_world.data());
    PMPI_Group_free(&world);
    PMPI_Group_free(&own);
    return text_of(of_world);
}

void close_rows(const attached& on) {
    if (current_settings().times()) merge(closed(), on);
}

void write_report(rows_of whose) {
    const std::string& file = current_settings().report_file;
    if (file.empty()) return;
    int rank = 0, size = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    bool whole = false;
    json rows = own_rows(whole);
    whole = whole && whose == rows_of::all_ranks;
    if (whole) rows = gather(rows, rank, size);
    if (rank != 0) return;
    const json report{{"terrace_report", 1},
                      {"terrace", version()},
                      {"mpi", version_of_mpi().substr(0, version_of_mpi().find_first_of(",\n"))},
                      {"ranks", size},
                      {"of_all_ranks", whole},
                      {"calls", sum_of<std::uint64_t>(rows, "calls")},
                      {"terrace_calls", sum_of<std::uint64_t>(rows, "terrace_calls")},
                      {"seconds", sum_of<double>(rows, "seconds")},
                      {"trial_seconds", sum_of<double>(rows, "trial_seconds")},
                      {"saved_seconds", sum_of<double>(rows, "saved_seconds")},
                      {"rows", rows}};
    std::ofstream out(file);
    out << report.dump(1) << '\n';
    out.close();
    if (!out) fmt::print(stderr, "terrace: warn: the report cannot be written to {}\n", file);
}

}  // namespace terrace::detail::pmpi
