#include "statistics/statistics_file.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/collective.hpp"
#include "base/document.hpp"
#include "base/text_file.hpp"
#include "base/yaml_scalar.hpp"

namespace terrace::detail {

namespace fs = std::filesystem;

namespace {

constexpr int statistics_format = 1;
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

std::int64_t micros(double seconds) { return std::llround(seconds * 1e6); }

// Returns a name that is valid until the process ends, as the names of calls in statistics are.
std::string_view name_of_call(const document& from) {
    static constexpr std::array others{"barrier", "alltoallv", "gatherv", "scatterv"};
    if (const auto what = parse_collective(from.text())) return to_string(*what);
    const auto found = std::ranges::find(others, from.text());
    if (found == others.end()) from.fail(fmt::format("there is no call {}", from.text()));
    return *found;
}

double seconds_in(const document& from) { return static_cast<double>(from.integer(0, most)) / 1e6; }

rank_statistics read_file(const fs::path& file) {
    const document from = document::read_file(file);
    expect_format(from.at("terrace_statistics"), statistics_format, "file with this version again");
    from.allow_only({"terrace_statistics", "communicator", "host", "plan", "rank", "size", "calls_per_slice", "calls",
                     "waits", "changes"});
    constexpr int most_ranks = 1 << 24;
    rank_statistics r{.communicator = from.at("communicator").text(),
                      .host = from.at("host").text(),
                      .plan = from.at("plan").text(),
                      .rank = static_cast<int>(from.at("rank").integer(0, most_ranks)),
                      .size = static_cast<int>(from.at("size").integer(1, most_ranks))};
    r.counted.calls_per_slice = from.at("calls_per_slice").integer(1, most);
    for (const document& c : from.at("calls").items()) {
        c.allow_only({"call", "bytes_from", "calls", "bytes", "us", "limit_us"});
        r.counted.calls.push_back({name_of_call(c.at("call")), c.at("bytes_from").integer(0, most),
                                   c.at("calls").integer(0, most), c.at("bytes").integer(0, most),
                                   seconds_in(c.at("us")), seconds_in(c.at("limit_us"))});
    }
    for (const document& w : from.at("waits").items()) {
        const std::vector<document> numbers = w.items();
        if (numbers.size() != 5) w.fail("a wait has five numbers: first call, number in calls, stage, rank and us");
        r.counted.waits.push_back(
            {numbers[0].integer(1, most),
             static_cast<int>(numbers[1].integer(0, static_cast<std::int64_t>(r.counted.calls.size()) - 1)),
             static_cast<int>(numbers[2].integer(0, 1024)), static_cast<int>(numbers[3].integer(0, most_ranks)),
             seconds_in(numbers[4])});
    }
    if (!from.has("changes")) return r;
    for (const document& c : from.at("changes").items()) {
        c.allow_only({"from_call", "why"});
        r.changes.push_back({c.at("from_call").integer(1, most), c.at("why").text()});
    }
    return r;
}

}  // namespace

std::string text_of(const rank_statistics& r) {
    const statistics& s = r.counted;
    std::string text = fmt::format(
        "{{\"terrace_statistics\": {},\n \"communicator\": {}, \"host\": {}, \"plan\": {}, \"rank\": {}, "
        "\"size\": {},\n"
        " \"calls_per_slice\": {},\n \"calls\": [",
        statistics_format, in_quotes(r.communicator), in_quotes(r.host), in_quotes(r.plan), r.rank, r.size,
        s.calls_per_slice);
    std::string_view between;
    for (const statistics::calls_of_size& c : s.calls) {
        text += fmt::format(
            "{}\n  {{\"call\": \"{}\", \"bytes_from\": {}, \"calls\": {}, \"bytes\": {}, \"us\": {}, "
            "\"limit_us\": {}}}",
            std::exchange(between, ","), c.call, c.bytes_from, c.calls, c.bytes, micros(c.seconds), micros(c.limit));
    }
    text += "],\n \"waits\": [";
    between = "";
    for (const statistics::wait& w : s.waits)
        text += fmt::format("{}\n  [{}, {}, {}, {}, {}]", std::exchange(between, ","), w.first_call, w.size, w.stage,
                            w.rank, micros(w.seconds));
    if (!r.changes.empty()) text += "],\n \"changes\": [";
    between = "";
    for (const changed_plan& c : r.changes)
        text += fmt::format("{}\n  {{\"from_call\": {}, \"why\": {}}}", std::exchange(between, ","), c.from_call,
                            in_quotes(c.why));
    return text + "]}\n";
}

void write_statistics(const fs::path& directory, const rank_statistics& r) {
    std::error_code problem;
    fs::create_directories(directory, problem);
    if (problem) throw input_error(directory.string(), 0, 0, problem.message());
    write_atomically(directory / fmt::format("{}.{}.json", r.communicator, r.rank), text_of(r));
}

std::vector<rank_statistics> read_statistics(const fs::path& directory) {
    std::error_code problem;
    std::vector<fs::path> files;
    for (const fs::directory_entry& e : fs::directory_iterator(directory, problem))
        if (e.path().extension() == ".json") files.push_back(e.path());
    if (problem) throw input_error(directory.string(), 0, 0, problem.message());
    if (files.empty())
        throw input_error(directory.string(), 0, 0,
                          fmt::format("there are no statistics (*.json); run a program with TERRACE_STATISTICS={}",
                                      directory.string()));
    std::ranges::sort(files);
    std::vector<rank_statistics> all;
    std::ranges::transform(files, std::back_inserter(all), read_file);
    return all;
}

}  // namespace terrace::detail
