// Events that the recorder keeps, and files that it writes.

#include "executor/recorder.hpp"

#include <fstream>
#include <sstream>
#include <string>

#include <csignal>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/descriptor.hpp"
#include "support/temporary.hpp"

namespace terrace::detail::recorder_test {
namespace {

void add(recorder& r, std::uint64_t call, int stage = 0, int lane = 0, std::int64_t chunk = 0, bool ends = false) {
    r.record([&](event& e) {
        e = {.ticks = e.ticks, .call = call, .chunk = chunk, .peer = 3, .what = action::send, .ends = ends};
        e.stage = static_cast<std::int16_t>(stage);
        e.lane = static_cast<std::int16_t>(lane);
    });
}

std::size_t count_of(const std::string& text, const std::string& what) {
    std::size_t n = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
}

std::string contents(const std::filesystem::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

TEST(recorder, keeps_the_last_1024_events) {
    recorder r(false, 5);
    add(r, 1);
    EXPECT_EQ(count_of(r.dump({}), "{\"time_us\""), 1u);
    for (std::uint64_t call = 2; call <= 1030; ++call) add(r, call);
    const std::string text = r.dump({"call 7: send to rank 3", "and more"});
    EXPECT_EQ(count_of(text, "{\"time_us\""), 1024u);
    EXPECT_EQ(count_of(text, "\"call\": 6,"), 0u);
    EXPECT_EQ(count_of(text, "\"call\": 7,"), 1u);
    EXPECT_LT(text.find("\"call\": 7,"), text.find("\"call\": 1030,")) << "oldest first";
    EXPECT_NE(text.find("\"rank\": 5"), std::string::npos);
    EXPECT_NE(text.find("\"call 7: send to rank 3\",\n    \"and more\""), std::string::npos) << text.substr(0, 200);
    EXPECT_NE(text.find("\"what\": \"send\", \"ends\": false, \"stage\": 0"), std::string::npos);
}

TEST(recorder, times_are_those_of_the_clock) {
    const auto now = [] {
        return std::chrono::duration<double, std::micro>(std::chrono::system_clock::now().time_since_epoch()).count();
    };
    recorder r(false);
    const double before = now();
    add(r, 1);
    const std::string text = r.dump({});
    const double at = std::stod(text.substr(text.find("{\"time_us\": ") + 12));
    EXPECT_NEAR(at, before, 1e6);
}

TEST(recorder, a_trace_has_a_slice_for_each_chunk_of_all_ranks) {
    const auto file = temporary("trace.json");
    begin_trace(file);
    for (int rank = 0; rank < 2; ++rank) {
        recorder r(true, rank);
        r.describe({.number = 1, .what = collective::broadcast, .bytes = 40});
        for (int k = 0; k < 3000; ++k) add(r, 1, k % 2, k % 3, k % 6, k >= 1500);
        r.write_trace(file, "plan");
    }
    const std::string text = contents(file);
    EXPECT_EQ(count_of(text, "\"process_name\""), 2u);
    EXPECT_EQ(count_of(text, "\"thread_name\""), 2 * 6u);
    EXPECT_EQ(count_of(text, "\"ph\": \"X\""), 2 * 6u) << "one per stage, lane, call and chunk";
    EXPECT_EQ(count_of(text, "\"name\": \"broadcast chunk 0\""), 2u) << "calls that are known have names";
    EXPECT_TRUE(text.starts_with("[\n{")) << text.substr(0, 20);
    EXPECT_TRUE(text.ends_with("}\n]\n"));
    EXPECT_EQ(count_of(text, "]"), 1u) << "valid after each rank";
    begin_trace(file);
    EXPECT_EQ(contents(file), text) << "begun once in this process";
}

TEST(recorder, a_trace_needs_a_regular_file) {
    const auto pipe = temporary("trace.pipe");
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    EXPECT_THROW(begin_trace(pipe), input_error);
    EXPECT_THROW(begin_trace(pipe.parent_path() / "missing" / "trace.json"), input_error);
    EXPECT_THROW(recorder(true).write_trace(pipe.parent_path(), "plan"), input_error);
}

TEST(recorder, waits_for_its_file_while_signals_come) {
    const std::filesystem::path file = temporary("trace-interrupted.json");
    const descriptor other(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(::flock(other.get(), LOCK_EX), 0);
    struct sigaction none {
    }, before{};
    none.sa_handler = [](int) {};
    ASSERT_EQ(::sigaction(SIGUSR1, &none, &before), 0);
    recorder r(true);
    add(r, 1);
    std::thread writer([&] { EXPECT_NO_THROW(r.write_trace(file, "a")); });
    for (int i = 0; i < 30; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ::pthread_kill(writer.native_handle(), SIGUSR1);
    }
    ::flock(other.get(), LOCK_UN);
    writer.join();
    ::sigaction(SIGUSR1, &before, nullptr);
    EXPECT_EQ(count_of(contents(file), "\"call\": 1"), 1u);
}

}  // namespace
}  // namespace terrace::detail::recorder_test
