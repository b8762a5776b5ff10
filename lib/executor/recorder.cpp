#include "executor/recorder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/descriptor.hpp"
#include "base/keep_for_ever.hpp"

namespace terrace::detail {

namespace {

constexpr std::size_t ring_size = 1024;         // events
constexpr std::size_t most_traced = 4'000'000;  // events: 256 MB

double clock_micros() {
    return std::chrono::duration<double, std::micro>(std::chrono::system_clock::now().time_since_epoch()).count();
}

[[noreturn]] void fail(const std::filesystem::path& file, const char* what) {
    throw input_error(file.string(), 0, 0,
                      fmt::format("{}: {}; name a file that can be written", what, std::strerror(errno)));
}

// Returns the path unless something else than a regular file is there: a device or a pipe never becomes a trace.
const std::filesystem::path& regular(const std::filesystem::path& path) {
    std::error_code none;
    if (const auto is = std::filesystem::status(path, none); exists(is) && !is_regular_file(is))
        throw input_error(path.string(), 0, 0, "not a regular file; a trace needs one");
    return path;
}

// A file that is open to one writer at a time.
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

// Names come from the program: what JSON does not allow in a string is left out.
std::string json_text(std::string_view text) {
    std::string plain;
    for (char c : text)
        if (c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20) plain.push_back(c);
    return plain;
}

constexpr int most_tracks = 1 << 16;  // of a communicator: 16 calls of 64 lanes of 32 stages each way

constexpr std::string_view trace_end = "\n]\n";

}  // namespace

recorder::recorder(bool everything, int rank)
    : last_(ring_size),
      keeps_all_(everything),
      rank_(rank),
      process_([rank] {
          static thread_local int first = rank;
          return first;
      }()),
      communicator_([] {
          static std::atomic<int> communicators = 0;
          return ++communicators;
      }()),
      first_ticks_(now()),
      first_micros_(clock_micros()) {}

void recorder::keep(const event& e) noexcept {
    if (all_.size() >= most_traced) return;
    try {
        all_.push_back(e);
    } catch (const std::bad_alloc&) {
        keeps_all_ = false;  // the trace ends here
    }
}

double recorder::micros_per_tick() const noexcept {
    return (clock_micros() - first_micros_) / static_cast<double>(std::max<std::uint64_t>(1, now() - first_ticks_));
}

double recorder::micros(std::uint64_t ticks, double per_tick) const noexcept {
    return first_micros_ + static_cast<double>(ticks - first_ticks_) * per_tick;
}

std::string recorder::dump(const std::vector<std::string>& waits) const {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    std::string text = fmt::format(
        "{{\n  \"rank\": {},\n  \"host\": \"{}\",\n  \"pid\": {},\n  \"communicator\": {},\n  \"time_us\": {:.0f},\n"
        "  \"waits_for\": [",
        rank_, host.data(), ::getpid(), communicator_, clock_micros());
    for (std::size_t i = 0; i < waits.size(); ++i) text += fmt::format("{}\n    \"{}\"", i == 0 ? "" : ",", waits[i]);
    text += "\n  ],\n  \"events\": [";
    const std::uint64_t n = std::min<std::uint64_t>(written_, last_.size());
    const double per_tick = micros_per_tick();
    for (std::uint64_t i = written_ - n; i < written_; ++i) {
        const event& e = last_[i & (last_.size() - 1)];
        text += fmt::format(
            "{}\n    {{\"time_us\": {:.2f}, \"call\": {}, \"what\": \"{}\", \"ends\": {}, \"stage\": {}, \"down\": {}, "
            "\"step\": {}, \"lane\": {}, \"chunk\": {}, \"peer\": {}}}",
            i == written_ - n ? "" : ",", micros(e.ticks, per_tick), e.call, to_string(e.what), e.ends, e.stage, e.down,
            e.step, e.lane, e.chunk, e.peer);
    }
    return text + "\n  ]\n}\n";
}

void recorder::describe(const traced_call& call) {
    if (keeps_all_ && calls_.size() < most_traced) calls_.push_back(call);
}

void recorder::add(traced_span span) {
    if (keeps_all_ && spans_.size() < most_traced) spans_.push_back(std::move(span));
}

void recorder::write_trace(const std::filesystem::path& file, const std::string& name) const {
    struct slice {
        std::uint64_t begin = ~std::uint64_t{0}, end = 0;
    };
    const auto extend = [](slice& s, std::uint64_t ticks) {
        s.begin = std::min(s.begin, ticks);
        s.end = std::max(s.end, ticks);
    };
    std::map<std::tuple<std::uint64_t, int, bool, int, std::int64_t>, slice> slices;
    std::map<std::uint64_t, slice> calls;
    for (const event& e : all_) {
        extend(slices[{e.call, e.stage, e.down, e.lane, e.chunk}], e.ticks);
        extend(calls[e.call], e.ticks);
    }
    // Calls that are in flight together need tracks of their own: each gets the first set that is free again.
    std::map<std::uint64_t, int> set_of_call;
    std::vector<std::uint64_t> busy_until;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> by_begin;  // begin, call
    for (const auto& [call, s] : calls) by_begin.emplace_back(s.begin, call);
    std::sort(by_begin.begin(), by_begin.end());
    for (const auto& [begin, call] : by_begin) {
        const auto free = std::find_if(busy_until.begin(), busy_until.end(),
                                       [begin = begin](std::uint64_t end) { return end < begin; });
        set_of_call[call] = static_cast<int>(free - busy_until.begin());
        if (free == busy_until.end()) busy_until.push_back(calls[call].end);
        else *free = calls[call].end;
    }

    std::string text = fmt::format(
        "{{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": {0}, \"args\": {{\"name\": \"rank {0}\"}}}}", process_);
    std::map<std::tuple<int, int, bool, int>, int> tracks;  // set, stage, down, lane
    const double per_tick = micros_per_tick();
    for (const auto& [key, s] : slices) {
        const auto& [call, stage, down, lane, chunk] = key;
        const int set = set_of_call[call];
        const auto [track, is_new] =
            tracks.try_emplace({set, stage, down, lane}, communicator_ * most_tracks + static_cast<int>(tracks.size()));
        if (is_new)
            text += fmt::format(
                ",\n{{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": {}, \"tid\": {}, \"args\": "
                "{{\"name\": \"{}, communicator {} (rank {}): stage {} {}, lane {}{}\"}}}}",
                process_, track->second, name, communicator_, rank_, stage, down ? "down" : "up", lane,
                set == 0 ? "" : fmt::format(", concurrent call {}", set + 1));
        const auto known =
            std::lower_bound(calls_.begin(), calls_.end(), call,
                             [](const traced_call& c, std::uint64_t number) { return c.number < number; });
        const bool is_known = known != calls_.end() && known->number == call;
        const std::string about = is_known ? fmt::format(", \"collective\": \"{}\", \"bytes\": {}, \"type\": \"{}\"",
                                                         to_string(known->what), known->bytes, to_string(known->type))
                                           : "";
        const double begin = micros(s.begin, per_tick);
        text += fmt::format(
            ",\n{{\"ph\": \"X\", \"name\": \"{}chunk {}\", \"pid\": {}, \"tid\": {}, \"ts\": {:.3f}, "
            "\"dur\": {:.3f}, \"args\": {{\"communicator\": {}, \"call\": {}{}}}}}",
            is_known ? fmt::format("{} ", to_string(known->what)) : "", chunk, process_, track->second, begin,
            micros(s.end, per_tick) - begin, communicator_, call, about);
    }
    std::map<std::string_view, int> rows;  // behind the tracks of calls
    for (const traced_span& s : spans_) {
        const auto [row, is_new] = rows.try_emplace(
            s.track, communicator_ * most_tracks + static_cast<int>(tracks.size()) + static_cast<int>(rows.size()));
        if (is_new)
            text += fmt::format(
                ",\n{{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": {}, \"tid\": {}, \"args\": {{\"name\": "
                "\"{}\"}}}}",
                process_, row->second, json_text(s.track));
        const std::chrono::duration<double, std::micro> begin = s.begin - first_steady_, length = s.end - s.begin;
        text += fmt::format(
            ",\n{{\"ph\": \"X\", \"name\": \"{}\", \"pid\": {}, \"tid\": {}, \"ts\": {:.3f}, \"dur\": {:.3f}}}",
            json_text(s.name), process_, row->second, first_micros_ + begin.count(), length.count());
    }
    const locked_file out(file);
    const off_t size = out.size();
    const bool first = size < static_cast<off_t>(trace_end.size());
    out.write_at(first ? 0 : size - static_cast<off_t>(trace_end.size()),
                 fmt::format("{}{}{}", first ? "[\n" : ",\n", text, trace_end));
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
