#include "statistics/metrics_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/descriptor.hpp"
#include "base/keep_for_ever.hpp"
#include "base/text_file.hpp"
#include "base/yaml_scalar.hpp"

namespace terrace::detail {

namespace fs = std::filesystem;

namespace {

// Sums over the calls of one function by one plan.
struct sums {
    double calls = 0, bytes = 0, seconds = 0, waiting = 0, limit = 0;

    sums& operator+=(const sums& more) {
        calls += more.calls;
        bytes += more.bytes;
        seconds += more.seconds;
        waiting += more.waiting;
        limit += more.limit;
        return *this;
    }
};
using sums_by_labels = std::map<std::string, sums>;

struct metric {
    std::string_view name, type, help;
    double (*of)(const sums& s);
};
constexpr std::array metrics{
    metric{"terrace_calls_total", "counter", "Calls that are complete.", [](const sums& s) { return s.calls; }},
    metric{"terrace_bytes_total", "counter", "Bytes of the vectors, or blocks, of these calls.",
           [](const sums& s) { return s.bytes; }},
    metric{"terrace_call_seconds_total", "counter", "Time from the begin to the end of calls.",
           [](const sums& s) { return s.seconds; }},
    metric{"terrace_waiting_seconds_total", "counter", "Time in calls in which the rank waited for others.",
           [](const sums& s) { return s.waiting; }},
    metric{"terrace_limit_ratio", "gauge", "The least time that links allow for these calls, as a part of their time.",
           [](const sums& s) { return s.seconds > 0 ? s.limit / s.seconds : 0; }},
};

sums_by_labels sums_of(const rank_statistics& r) {
    sums_by_labels all;
    std::vector<sums*> by_size;
    for (const statistics::calls_of_size& c : r.counted.calls) {
        sums& s = all[fmt::format("collective={},rank=\"{}\",host={},plan={}", in_quotes(c.call), r.rank,
                                  in_quotes(r.host), in_quotes(r.plan))];
        s += {static_cast<double>(c.calls), static_cast<double>(c.bytes), c.seconds, 0, c.limit};
        by_size.push_back(&s);
    }
    for (const statistics::wait& w : r.counted.waits) by_size[static_cast<std::size_t>(w.size)]->waiting += w.seconds;
    return all;
}

// The sums of one rank in this process, which has several ranks if they are threads.
struct told {
    std::map<std::string, sums_by_labels> live;  // communicators that exist, by name
    sums_by_labels ended;
};

sums_by_labels tell(told& of, const rank_statistics& r, bool ends) {
    const auto add = [](sums_by_labels& to, const sums_by_labels& more) {
        for (const auto& [labels, s] : more) to[labels] += s;
    };
    if (ends) {
        of.live.erase(r.communicator);
        add(of.ended, sums_of(r));
        if (of.live.empty()) of = {};
    } else {
        of.live[r.communicator] = sums_of(r);
    }
    sums_by_labels all = of.ended;
    for (const auto& [name, s] : of.live) add(all, s);
    return all;
}

// Words of "# rank 3 is process 4711", the line that names the owner of lines.
constexpr std::string_view owner_words[] = {"# rank ", " is process "};

// Returns the label of an owner's lines, if its process exists and it is another rank; else an empty text.
std::string label_of_living(const std::string& line, int rank) {
    const std::size_t middle = line.find(owner_words[1]);
    if (!line.starts_with(owner_words[0]) || middle == line.npos) return "";
    const std::string number = line.substr(owner_words[0].size(), middle - owner_words[0].size());
    const int process = std::atoi(line.c_str() + middle + owner_words[1].size());
    const bool lives = process > 0 && (kill(process, 0) == 0 || errno == EPERM);
    return lives && number != std::to_string(rank) ? fmt::format(",rank=\"{}\",", number) : "";
}

}  // namespace

void renew_metrics(const fs::path& file, const rank_statistics& r, bool ends) {
    static std::mutex guard;
    static auto& of_process = kept_for_ever(std::map<int, told>());
    const std::lock_guard lock(guard);
    const sums_by_labels own = tell(of_process[r.rank], r, ends);

    // A lock on the directory leaves no file behind.
    const fs::path directory = file.has_parent_path() ? file.parent_path() : ".";
    const descriptor held(uninterrupted([&] { return open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (!held || uninterrupted([&] { return flock(held.get(), LOCK_EX); }) != 0)
        throw input_error(directory.string(), 0, 0, std::system_category().message(errno));
    constexpr std::size_t most_bytes = std::size_t{16} << 20;  // size of a metrics file
    std::vector<std::string> owners, kept;
    std::set<std::string> labels;
    if (fs::exists(file)) {
        std::istringstream in(read_text(file, most_bytes));
        for (std::string line; std::getline(in, line);) {
            if (const std::string label = label_of_living(line, r.rank); !label.empty()) {
                owners.push_back(line);
                labels.insert(label);
            } else if (!line.starts_with('#')) {
                kept.push_back(line);
            }
        }
    }
    std::erase_if(kept, [&](const std::string& line) {
        const std::size_t from = line.find(",rank=");
        return from == line.npos || !labels.contains(line.substr(from, line.find(',', from + 1) - from + 1));
    });
    if (!own.empty()) owners.push_back(fmt::format("{}{}{}{}", owner_words[0], r.rank, owner_words[1], getpid()));
    std::string text;
    for (const std::string& owner : owners) text += owner + '\n';
    for (const metric& m : metrics) {
        text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", m.name, m.help, m.name, m.type);
        for (const std::string& line : kept)
            if (line.starts_with(fmt::format("{}{{", m.name))) text += line + '\n';
        for (const auto& [names, s] : own) text += fmt::format("{}{{{}}} {:.9g}\n", m.name, names, m.of(s));
    }
    std::error_code ignored;
    if (owners.empty()) fs::remove(file, ignored);
    else write_atomically(file, text);
}

}  // namespace terrace::detail
