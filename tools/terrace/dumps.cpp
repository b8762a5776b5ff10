#include "tools/terrace/dumps.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <regex>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <terrace/error.hpp>

namespace terrace::detail {

namespace {

namespace fs = std::filesystem;

std::string words_for(const nlohmann::json& event) {
    return fmt::format("{} {} of call {}: stage {} {}, step {}, chunk {}, with rank {} of the plan",
                       event.at("ends").get<bool>() ? "ended" : "began", event.at("what").get<std::string>(),
                       event.at("call").get<std::int64_t>(), event.at("stage").get<int>(),
                       event.at("down").get<bool>() ? "down" : "up", event.at("step").get<int>(),
                       event.at("chunk").get<std::int64_t>(), event.at("peer").get<int>());
}

std::optional<rank_dump> read_dump(const fs::path& file) {
    try {
        const nlohmann::json all = nlohmann::json::parse(std::ifstream(file));
        if (!all.contains("waits_for") || !all.contains("rank")) return {};  // a file of another program
        rank_dump d{.file = file,
                    .rank = all.at("rank").get<int>(),
                    .host = all.at("host").get<std::string>(),
                    .pid = all.at("pid").get<int>(),
                    .time_us = all.at("time_us").get<double>(),
                    .waits = all.at("waits_for").get<std::vector<std::string>>(),
                    .last = {}};
        if (const auto& events = all.at("events"); !events.empty()) {
            d.last = words_for(events.back());
            d.last_us = events.back().at("time_us").get<double>();
        }
        return d;
    } catch (const nlohmann::json::exception& e) {
        throw input_error(file.string(), 0, 0, fmt::format("is no dump of Terrace: {}", e.what()));
    }
}

// Returns the ranks that lines contain: "call 12: stage 1 up, step 4, chunk 7: recv from rank 3".
std::set<int> ranks_in(const std::vector<std::string>& lines) {
    static const std::regex name("rank ([0-9]+)");
    std::set<int> found;
    for (const std::string& line : lines)
        for (auto at = std::sregex_iterator(line.begin(), line.end(), name); at != std::sregex_iterator(); ++at)
            found.insert(std::stoi((*at)[1]));
    return found;
}

using wait_graph = std::map<int, std::set<int>>;  // by rank with a dump: the ranks that it waits for

// Returns all ranks that a rank waits for, directly or indirectly. These include itself only if it is in a cycle.
std::set<int> reached_from(const wait_graph& waits, int rank) {
    std::set<int> seen;
    std::vector<int> open{rank};
    while (!open.empty()) {
        const auto found = waits.find(open.back());
        open.pop_back();
        if (found == waits.end()) continue;
        for (const int next : found->second)
            if (seen.insert(next).second) open.push_back(next);
    }
    return seen;
}

// Returns the ranks that wait for no rank, with the number of ranks that wait for each, most first.
std::vector<std::pair<int, int>> ends_of(const wait_graph& waits) {
    std::map<int, int> waiting;
    for (const auto& [rank, whom] : waits)
        for (const int end : reached_from(waits, rank))
            if (const auto found = waits.find(end); found == waits.end() || found->second.empty()) ++waiting[end];
    std::vector<std::pair<int, int>> ends(waiting.begin(), waiting.end());
    std::stable_sort(ends.begin(), ends.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    return ends;
}

std::string end_text(const std::map<int, rank_dump>& dumps, int end, int waiting) {
    std::string text = fmt::format("{} of {} ranks wait for rank {} in the end", waiting, dumps.size(), end);
    const auto found = dumps.find(end);
    if (found == dumps.end())
        return text +
               ", which has written no dump: it makes no call, is stopped, or has died. Look at its own output.\n";
    const rank_dump& own = found->second;
    text += fmt::format(" ({}, process {}), which waits for nobody", own.host, own.pid);
    return text + (own.last.empty() ? ".\n" : fmt::format("; last it {}.\n", own.last));
}

}  // namespace

std::map<int, rank_dump> read_dumps(const fs::path& directory) {
    std::map<int, rank_dump> by_rank;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(directory, none)) {
        if (entry.path().extension() != ".json") continue;
        std::optional<rank_dump> d = read_dump(entry.path());
        if (d && (!by_rank.contains(d->rank) || by_rank[d->rank].time_us < d->time_us))
            by_rank[d->rank] = std::move(*d);
    }
    if (by_rank.empty())
        throw input_error(directory.string(), 0, 0,
                          "has no dumps (*.RANK.json); set TERRACE_DUMP=DIRECTORY/NAME for all ranks, wait for the "
                          "deadline or send them SIGUSR1");
    return by_rank;
}

std::string verdict_of(const std::map<int, rank_dump>& dumps) {
    wait_graph waits;
    double last = 0;
    for (const auto& [rank, d] : dumps) {
        waits[rank] = ranks_in(d.waits);
        last = std::max(last, d.time_us);
    }
    std::string text;
    const auto ends = ends_of(waits);
    for (const auto& [end, waiting] : ends) text += end_text(dumps, end, waiting);
    if (ends.empty())
        text += "every rank waits for another one, in a circle: do all make the same calls in one order?\n";
    for (const auto& [rank, d] : dumps) {
        const std::set<int>& whom = waits[rank];
        text += fmt::format("\nrank {} on {}, process {}: ", rank, d.host, d.pid);
        text += whom.empty()
                    ? std::string("waits for nobody\n")
                    : fmt::format("waits for {} {}\n", whom.size() == 1 ? "rank" : "ranks", fmt::join(whom, ", "));
        for (std::size_t i = 0; i < std::min<std::size_t>(d.waits.size(), 3); ++i) text += "  " + d.waits[i] + "\n";
        if (!d.last.empty())
            text += fmt::format("  {:.1f} ms before the last dump: {}\n", (last - d.last_us) / 1e3, d.last);
    }
    return text;
}

}  // namespace terrace::detail
