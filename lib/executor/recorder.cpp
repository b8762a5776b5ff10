#include "executor/recorder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include <terrace/error.hpp>

namespace terrace {

namespace {

constexpr std::size_t ring = 1024;
constexpr std::size_t most = 4'000'000;  // events of a trace: 256 MB

double clock_micros() {
    return std::chrono::duration<double, std::micro>(std::chrono::system_clock::now().time_since_epoch()).count();
}

[[noreturn]] void fail(const std::filesystem::path& file, const char* what) {
    throw input_error(file.string(), 0, 0,
                      fmt::format("{}: {}; name a file that can be written", what, std::strerror(errno)));
}

// A device or a pipe would take the text and never be a trace.
const std::filesystem::path& regular(const std::filesystem::path& path) {
    std::error_code none;
    if (const auto is = std::filesystem::status(path, none); exists(is) && !is_regular_file(is))
        throw input_error(path.string(), 0, 0,
                          "a trace cannot be written there, since it is no regular file; name one");
    return path;
}

// A file open for one writer at a time.
class locked_file {
public:
    explicit locked_file(const std::filesystem::path& path)
        : path_(regular(path)), file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
        if (file_ < 0 || flock(file_, LOCK_EX) != 0) fail(path_, "cannot open the trace");
    }
    locked_file(const locked_file&) = delete;
    locked_file& operator=(const locked_file&) = delete;
    ~locked_file() { close(file_); }

    off_t size() const {
        struct stat s {};
        return fstat(file_, &s) == 0 ? s.st_size : 0;
    }
    void write_at(off_t at, std::string_view text) const {
        if (ftruncate(file_, at) == 0 &&
            pwrite(file_, text.data(), text.size(), at) == static_cast<ssize_t>(text.size()))
            return;
        fail(path_, "cannot write the trace");
    }

private:
    std::filesystem::path path_;
    int file_;
};

constexpr std::string_view trace_end = "\n]\n";

}  // namespace

recorder::recorder(bool everything)
    : last_(ring), keeps_all_(everything), first_ticks_(now()), first_micros_(clock_micros()) {}

void recorder::keep(const event& e) noexcept {
    if (all_.size() < most) all_.push_back(e);
}

// The length of a tick is measured over the recorder's life.
double recorder::micros_per_tick() const noexcept {
    return (clock_micros() - first_micros_) / static_cast<double>(std::max<std::uint64_t>(1, now() - first_ticks_));
}

double recorder::micros(std::uint64_t ticks, double per_tick) const noexcept {
    return first_micros_ + static_cast<double>(ticks - first_ticks_) * per_tick;
}

std::string recorder::dump(int rank, const std::vector<std::string>& waits) const {
    std::string text = fmt::format("{{\n  \"rank\": {},\n  \"waits_for\": [", rank);
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

void recorder::write_trace(const std::filesystem::path& file, int rank, const std::string& name) const {
    struct slice {
        std::uint64_t begin = ~std::uint64_t{0}, end = 0;
    };
    std::map<std::tuple<int, bool, int, std::uint64_t, std::int64_t>, slice> slices;
    std::set<std::tuple<int, bool, int>> tracks;
    for (const event& e : all_) {
        slice& s = slices[{e.stage, e.down, e.lane, e.call, e.chunk}];
        s.begin = std::min(s.begin, e.ticks);
        s.end = std::max(s.end, e.ticks);
        tracks.insert({e.stage, e.down, e.lane});
    }
    const auto track = [](int stage, bool down, int lane) { return (2 * stage + down) * 64 + lane; };
    std::string text = fmt::format(
        "{{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": {}, \"args\": {{\"name\": \"rank {}\"}}}}", rank, rank);
    for (const auto& [stage, down, lane] : tracks)
        text += fmt::format(
            ",\n{{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": {}, \"tid\": {}, \"args\": "
            "{{\"name\": \"{}: stage {} {}, lane {}\"}}}}",
            rank, track(stage, down, lane), name, stage, down ? "down" : "up", lane);
    const double per_tick = micros_per_tick();
    for (const auto& [key, s] : slices) {
        const auto& [stage, down, lane, call, chunk] = key;
        const double begin = micros(s.begin, per_tick);
        text += fmt::format(
            ",\n{{\"ph\": \"X\", \"name\": \"chunk {}\", \"pid\": {}, \"tid\": {}, \"ts\": {:.3f}, "
            "\"dur\": {:.3f}, \"args\": {{\"call\": {}}}}}",
            chunk, rank, track(stage, down, lane), begin, micros(s.end, per_tick) - begin, call);
    }
    const locked_file out(file);
    const off_t size = out.size();
    const bool first = size < static_cast<off_t>(trace_end.size());
    out.write_at(first ? 0 : size - static_cast<off_t>(trace_end.size()),
                 fmt::format("{}{}{}", first ? "[\n" : ",\n", text, trace_end));
}

void begin_trace(const std::filesystem::path& file) {
    static std::mutex guard;
    static std::set<std::filesystem::path> begun;
    const std::lock_guard lock(guard);
    if (begun.contains(file)) return;
    locked_file(file).write_at(0, "");
    begun.insert(file);
}

}  // namespace terrace
