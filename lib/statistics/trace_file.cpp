#include "statistics/trace_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/descriptor.hpp"
#include "base/keep_for_ever.hpp"
#include "base/yaml_scalar.hpp"

namespace terrace::detail {

namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const char* what) {
    throw input_error(file.string(), 0, 0,
                      fmt::format("{}: {}; name a file that can be written", what, std::strerror(errno)));
}

// Returns the path. Throws if a device, a pipe or any other non-regular file is there: these never become a trace.
const std::filesystem::path& regular(const std::filesystem::path& path) {
    std::error_code none;
    if (const auto is = std::filesystem::status(path, none); exists(is) && !is_regular_file(is))
        throw input_error(path.string(), 0, 0, "not a regular file; a trace needs one");
    return path;
}

// A file with a lock: one writer at a time.
class locked_file {
public:
    explicit locked_file(const std::filesystem::path& path)
        : path_(regular(path)),
          file_(uninterrupted([&] { return open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); })) {
        if (!file_ || uninterrupted([&] { return flock(file_.get(), LOCK_EX); }) != 0)
            fail(path_, "cannot open the trace");
    }

    off_t size() const {
        struct stat s {};
        return fstat(file_.get(), &s) == 0 ? s.st_size : 0;
    }
    void write_at(off_t at, std::string_view text) const {
        const bool is_cut = uninterrupted([&] { return ftruncate(file_.get(), at); }) == 0;
        if (!is_cut || lseek(file_.get(), at, SEEK_SET) != at || !write_whole(file_.get(), text))
            fail(path_, "cannot write the trace");
    }

private:
    std::filesystem::path path_;
    descriptor file_;
};

std::string name_line(std::string_view what, int process, int track, std::string_view name) {
    return fmt::format(",\n{{\"ph\": \"M\", \"name\": \"{}\", \"pid\": {}, \"tid\": {}, \"args\": {{\"name\": {}}}}}",
                       what, process, track, in_quotes(name));
}

// Returns the first part of a line; the caller adds the rest.
std::string slice_line(std::string_view name, int process, int track, double begin, double end) {
    return fmt::format(",\n{{\"ph\": \"X\", \"name\": {}, \"pid\": {}, \"tid\": {}, \"ts\": {:.3f}, \"dur\": {:.3f}",
                       in_quotes(name), process, track, begin, end - begin);
}

// Assigns a set of tracks to each call: the first set that is free. Calls in flight together get different sets.
std::map<std::uint64_t, int> sets_of_calls(const std::vector<traced_chunk>& chunks) {
    std::map<std::uint64_t, std::pair<double, double>> calls;  // begin, end
    for (const traced_chunk& c : chunks) {
        auto& [begin, end] = calls.try_emplace(c.call, c.begin, c.end).first->second;
        begin = std::min(begin, c.begin);
        end = std::max(end, c.end);
    }
    std::vector<std::tuple<double, std::uint64_t, double>> by_begin;
    for (const auto& [call, times] : calls) by_begin.emplace_back(times.first, call, times.second);
    std::ranges::sort(by_begin);
    std::map<std::uint64_t, int> sets;
    std::vector<double> busy_until;
    for (const auto& [begin, call, end] : by_begin) {
        const auto free = std::ranges::find_if(busy_until, [begin = begin](double until) { return until < begin; });
        sets[call] = static_cast<int>(free - busy_until.begin());
        if (free == busy_until.end()) busy_until.push_back(end);
        else *free = end;
    }
    return sets;
}

}  // namespace

void append_trace(const std::filesystem::path& file, const traced_rank& of, std::string_view plan,
                  const std::vector<traced_call>& calls, const std::vector<traced_chunk>& chunks,
                  const std::vector<traced_span>& spans) {
    std::string text =
        fmt::format("{{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": {0}, \"args\": {{\"name\": \"rank {0}\"}}}}",
                    of.process);
    constexpr int most_tracks = 1 << 16;  // tracks of a communicator: 16 calls of 64 lanes of 32 stages each way
    const int first_track = of.communicator * most_tracks;
    std::map<std::uint64_t, int> sets = sets_of_calls(chunks);
    std::map<std::tuple<int, int, bool, int>, int> tracks;  // set, stage, down, lane
    for (const traced_chunk& c : chunks) {
        const int set = sets[c.call];
        const auto [track, is_new] =
            tracks.try_emplace({set, c.stage, c.down, c.lane}, first_track + static_cast<int>(tracks.size()));
        if (is_new)
            text += name_line("thread_name", of.process, track->second,
                              fmt::format("{}, communicator {} (rank {}): stage {} {}, lane {}{}", plan,
                                          of.communicator, of.rank, c.stage, c.down ? "down" : "up", c.lane,
                                          set == 0 ? "" : fmt::format(", concurrent call {}", set + 1)));
        const auto known = std::ranges::lower_bound(calls, c.call, {}, &traced_call::number);
        const bool is_known = known != calls.end() && known->number == c.call;
        text +=
            slice_line(fmt::format("{}chunk {}", is_known ? fmt::format("{} ", to_string(known->what)) : "", c.chunk),
                       of.process, track->second, c.begin, c.end);
        text += fmt::format(", \"args\": {{\"communicator\": {}, \"call\": {}", of.communicator, c.call);
        if (is_known)
            text += fmt::format(", \"collective\": \"{}\", \"bytes\": {}, \"type\": \"{}\"", to_string(known->what),
                                known->bytes, to_string(known->type));
        text += "}}";
    }
    std::map<std::string_view, int> rows;  // after the tracks of calls
    for (const traced_span& s : spans) {
        const auto [row, is_new] =
            rows.try_emplace(s.track, first_track + static_cast<int>(tracks.size() + rows.size()));
        if (is_new) text += name_line("thread_name", of.process, row->second, s.track);
        text += slice_line(s.name, of.process, row->second, s.begin, s.end) + "}";
    }
    constexpr std::string_view trace_end = "\n]\n";
    const locked_file out(file);
    const off_t end = out.size() - static_cast<off_t>(trace_end.size());
    out.write_at(std::max<off_t>(end, 0), fmt::format("{}{}{}", end < 0 ? "[\n" : ",\n", text, trace_end));
}

void begin_trace(const std::filesystem::path& file) {
    static std::mutex guard;
    static auto& begun = kept_for_ever(std::set<std::filesystem::path>());
    const std::lock_guard lock(guard);
    if (begun.contains(file)) return;
    locked_file(file).write_at(0, "");
    begun.insert(file);
}

}  // namespace terrace::detail
