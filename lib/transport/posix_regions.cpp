#include "transport/shared_region.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "base/at_end.hpp"
#include "base/descriptor.hpp"
#include "base/index.hpp"
#include "base/quiet_task.hpp"

namespace terrace::detail {

namespace {

constexpr const char* directory = "/dev/shm";
constexpr std::string_view prefix = "terrace.";

// Place of an object without a name: an open file of its creator. A process in another container finds no such file, or
// another file: `device` and `number` then differ.
struct open_file {
    pid_t process = 0;
    int file = -1;
    dev_t device = 0;
    ino_t number = 0;
};

using object_name = std::array<char, 64>;  // empty: none

// Progress of a process: it has mapped the object; it cannot open the object without a name; it has failed otherwise;
// or there is no object.
enum class state : char { mapped, hidden, failed, absent };

// Unlinks the names of objects whose processes have ended. The process that gave a name holds the lock of the file.
void remove_abandoned() {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(directory, none)) {
        if (!entry.path().filename().native().starts_with(prefix)) continue;
        const descriptor file(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
        if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
    }
}

// An object as one process sees it, of `bytes` bytes.
class object {
public:
    explicit object(std::size_t bytes) : bytes_(bytes) {}
    ~object() {
        if (memory_ != nullptr) ::munmap(memory_, bytes_);
    }

    // Creates the object without name and memory. Fails if /dev/shm has too little room for all of it now.
    void create() {
        file_ = descriptor(::open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
        if (!file_) return fail("open", errno);
        struct statvfs there {};
        if (::fstatvfs(file_.get(), &there) != 0) return fail("fstatvfs", errno);
        if (bytes_ > there.f_bavail * there.f_frsize) fail("statvfs", ENOSPC);
    }
    open_file where() const noexcept {
        struct stat own {};
        if (!file_ || ::fstat(file_.get(), &own) != 0) return {};
        return {::getpid(), file_.get(), own.st_dev, own.st_ino};
    }
    // Gives the object a random name, for processes that cannot open it without one.
    object_name give_name() {
        remove_abandoned();
        std::array<std::uint64_t, 2> key{};
        if (::getrandom(key.data(), sizeof key, 0) != sizeof key || ::flock(file_.get(), LOCK_EX | LOCK_NB) != 0)
            return {};
        object_name name{};
        fmt::format_to_n(name.data(), name.size() - 1, "{}/{}{:016x}{:016x}", directory, prefix, key[0], key[1]);
        const std::string file = fmt::format("/proc/self/fd/{}", file_.get());
        if (::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, name.data(), AT_SYMLINK_FOLLOW) != 0) return {};
        return name;
    }

    // Opens an object that another process has created.
    void open(const open_file& there) {
        if (there.file < 0) return;
        const std::string file = fmt::format("/proc/{}/fd/{}", there.process, there.file);
        struct stat found {};
        if (::stat(file.c_str(), &found) != 0) fail("open", errno);
        else if (found.st_dev != there.device || found.st_ino != there.number) fail("open", ENOENT);
        else open(file.c_str());
        if (!file_) state_ = state::hidden;
    }
    void open(const char* file) {
        file_ = descriptor(::open(file, O_RDWR | O_CLOEXEC));
        if (!file_) fail("open", errno);
    }

    // Maps the open object, and allocates memory as take() does.
    state map(std::size_t begin, std::size_t bytes) {
        if (!file_ || state_ == state::failed || memory_ != nullptr) return state_;
        void* const there = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
        if (there == MAP_FAILED) {
            fail("mmap", errno);
        } else {
            memory_ = static_cast<std::byte*>(there);
            state_ = state::mapped;
            if (const int code = take(begin, bytes); code != 0) fail("posix_fallocate", code);
        }
        return state_;
    }
    // Each process allocates memory for its own part, so all parts are cleared at once, on pages near the core of their
    // process. A full /dev/shm is detected here and not at the first touch. Some kernels undo the allocation at each
    // signal, so the timer of a profiler could make it repeat for ever: signals are blocked.
    int take(std::size_t begin, std::size_t bytes) const noexcept {
        const blocked_signals none;
        int code = EINTR;
        while (code == EINTR)
            code = ::posix_fallocate(file_.get(), static_cast<off_t>(begin), static_cast<off_t>(bytes));
        return code;
    }

    std::byte* memory() const noexcept { return memory_; }
    const std::string& trouble() const noexcept { return trouble_; }

private:
    void fail(const char* call, int code) {
        state_ = state::failed;
        trouble_ = fmt::format("{}, {}: {}", directory, call, std::strerror(code));
    }

    std::size_t bytes_;
    descriptor file_;
    std::byte* memory_ = nullptr;
    state state_ = state::absent;
    std::string trouble_;
};

}  // namespace
std::optional<shared_region> posix_regions::share(team& ranks, std::span<const int> sharers, std::size_t bytes,
                                                  std::size_t at_once) {
    const std::size_t all = at(ranks.size()), creator = at(sharers.front());
    const bool creates = sharers.front() == ranks.rank();
    const auto part = std::find(sharers.begin(), sharers.end(), ranks.rank()) - sharers.begin();
    const std::size_t first = static_cast<std::size_t>(part) * bytes;
    const auto shared = std::make_shared<object>(bytes * sharers.size());
    std::vector<state> states(all);
    const auto map = [&] {
        const state own = shared->map(first, at_once);
        ranks.gather_all(&own, states.data(), sizeof own);
    };
    const auto some_rank = [&](state s) { return std::find(states.begin(), states.end(), s) != states.end(); };

    if (creates) shared->create();
    const open_file own = shared->where();
    std::vector<open_file> files(all);
    ranks.gather_all(&own, files.data(), sizeof own);
    if (!creates) shared->open(files[creator]);
    map();
    if (some_rank(state::hidden) && !some_rank(state::failed)) {
        object_name name{};
        // Each rank unlinks the name, since the others may be dead by then.
        const at_end unlink([&] {
            if (name.front() != 0) ::unlink(name.data());
        });
        const auto is_hidden = [&](int r) { return states[at(r)] == state::hidden; };
        if (creates && std::any_of(sharers.begin(), sharers.end(), is_hidden)) name = shared->give_name();
        std::vector<object_name> names(all);
        ranks.gather_all(name.data(), names.data(), sizeof name);
        name = names[creator];
        if (is_hidden(ranks.rank()) && name.front() != 0) shared->open(name.data());
        map();
    }
    const auto failed = std::ranges::find_if(states, [](state s) { return s == state::failed || s == state::hidden; });
    if (failed != states.end()) {
        if (warn_ && failed - states.begin() == ranks.rank())
            warn_(fmt::format("ranks of a node cannot share memory: {}", shared->trouble()));
        return std::nullopt;
    }
    shared_region region{.bytes = bytes, .parts = {}, .keep = shared, .take = [shared, first](auto begin, auto more) {
                             return shared->take(first + begin, more);
                         }};
    for (std::size_t i = 0; i < sharers.size(); ++i) region.parts.push_back(shared->memory() + i * bytes);
    return region;
}

}  // namespace terrace::detail
