#include "tools/common/import_child.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <optional>
#include <sstream>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/descriptor.hpp"

namespace terrace::detail {

namespace {

using clock = std::chrono::steady_clock;

// ---- In the child ---------------------------------------------------------------------------------------------------

// An answer is "H" and the node as JSON, or "E line column message".

std::string refusal(int line, int column, std::string_view message) {
    return fmt::format("E {} {} {}", line, column, message);
}

// Returns the message of the error without its position, which the parent adds again.
std::string_view message_of(const input_error& e) {
    const std::string_view text = e.what();
    return text.substr(std::min(text.size(), text.find(": ", e.file().size()) + 2));
}

// Returns hwloc's reason to refuse a file: the last line that it wrote to `messages`, except the constant final line.
std::string last_words(int messages) {
    std::string text(4096, '\0');
    const off_t start = std::max<off_t>(0, ::lseek(messages, 0, SEEK_END) - static_cast<off_t>(text.size()));
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(::pread(messages, text.data(), text.size(), start), 0)));
    std::istringstream lines(text);
    std::string words;
    for (std::string line; std::getline(lines, line);) {
        const std::size_t first = line.find_first_not_of(" *");
        if (first != line.npos && line.find("component discovery failed") == line.npos) words = line.substr(first);
    }
    return words;
}

std::string answer(const std::function<hardware()>& import, int messages) {
    try {
        return "H" + write_hardware(import());
    } catch (const input_error& e) {
        const std::string words = last_words(messages);
        return refusal(e.line(), e.column(),
                       words.empty() ? std::string(message_of(e)) : fmt::format("{} ({})", message_of(e), words));
    } catch (const std::bad_alloc&) {
        return refusal(0, 0, "the import needs too much memory");
    } catch (const std::exception& e) {
        return refusal(0, 0, e.what());
    }
}

// Sets a hard limit above the soft limit: at a hard limit on CPU time, the kernel's SIGKILL hides the reason.
void limit(int resource, std::uint64_t most) {
    const rlimit soft_and_hard{most, most + 1};
    ::setrlimit(static_cast<__rlimit_resource>(resource), &soft_and_hard);
}

[[noreturn]] void run_child(int out, const std::function<hardware()>& import, const import_limits& limits) {
    // Captures the importers' own messages, which would only confuse. The parent reports hwloc's reason for a refusal.
    const int messages = ::memfd_create("messages", MFD_CLOEXEC);
    ::dup2(messages, STDOUT_FILENO);
    ::dup2(messages, STDERR_FILENO);
    ::setenv("HWLOC_XML_VERBOSE", "1", 1);
    ::setenv("HWLOC_SYNTHETIC_VERBOSE", "1", 1);
    limit(RLIMIT_FSIZE, 1 << 20);
    ::signal(SIGXFSZ, SIG_IGN);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, static_cast<std::uint64_t>(limits.cpu.count()));
    std::uint64_t pages = 0;  // of the current address space
    std::ifstream("/proc/self/statm") >> pages;
    limit(RLIMIT_AS, pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + limits.memory);
    const std::string text = answer(import, messages);
    ::_exit(write_whole(out, text) ? 0 : 1);
}

// ---- In the parent --------------------------------------------------------------------------------------------------

// Returns all data up to the close of the other end; nothing if the deadline passes.
std::optional<std::string> read_until(int in, clock::time_point deadline) {
    std::string text;
    std::array<char, 64 << 10> block;
    while (true) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now());
        pollfd ready{in, POLLIN, 0};
        const int events = left.count() > 0 ? ::poll(&ready, 1, static_cast<int>(left.count())) : 0;
        if (events == 0) return {};
        if (events < 0) continue;  // a signal
        const ssize_t count = ::read(in, block.data(), block.size());
        if (count == 0) return text;
        if (count > 0) text.append(block.data(), static_cast<std::size_t>(count));
    }
}

hardware read_answer(const std::string& file, const std::string& text) {
    if (text.starts_with('H')) return read_hardware(std::string_view(text).substr(1));
    std::istringstream in(text.substr(1));
    int line = 0;
    int column = 0;
    std::string message;
    in >> line >> column >> std::ws;
    std::getline(in, message);
    throw input_error(file, line, column, message);
}

}  // namespace

hardware import_in_child(const std::function<hardware()>& import, const std::string& name,
                         const import_limits& limits) {
    const auto fail = [&](const std::string& message) { throw input_error(name, 0, 0, message); };
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail(fmt::format("no pipe for its import: {}", std::strerror(errno)));
    const descriptor in(ends[0]);
    descriptor out(ends[1]);
    const clock::time_point deadline = clock::now() + limits.wall;
    const pid_t child = ::fork();
    if (child < 0) fail(fmt::format("no process for its import: {}", std::strerror(errno)));
    if (child == 0) run_child(out.get(), import, limits);
    out.close();

    const auto text = read_until(in.get(), deadline);
    if (!text) ::kill(child, SIGKILL);
    int status = 0;
    uninterrupted([&] { return ::waitpid(child, &status, 0); });
    if (!text)
        fail(fmt::format("its import took longer than {} ms; the file is damaged or too large", limits.wall.count()));
    if (WIFSIGNALED(status))
        fail(fmt::format("its import ended by signal {} ({}); the file is damaged or too large", WTERMSIG(status),
                         ::strsignal(WTERMSIG(status))));
    if (WEXITSTATUS(status) != 0 || text->empty())
        fail(fmt::format("its import ended with status {}; the file is damaged or too large", WEXITSTATUS(status)));
    return read_answer(name, *text);
}

hardware read_node_in_child(const topology_format& format, const std::string& source) {
    return import_in_child([&] { return read_node(format, source); }, source);
}

}  // namespace terrace::detail
