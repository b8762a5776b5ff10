#include "transport/shared_region.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>

#include <fmt/format.h>

#include "base/index.hpp"

namespace terrace::detail {

namespace {

using object_name = std::array<char, 48>;  // empty: none

// Removes a name at the end; the memory stays while somebody has mapped it.
struct unlinking {
    const object_name& name;
    explicit unlinking(const object_name& n) : name(n) {}
    unlinking(const unlinking&) = delete;
    unlinking& operator=(const unlinking&) = delete;
    ~unlinking() {
        if (name.front() != 0) shm_unlink(name.data());
    }
};

// Creates an object without memory, if there is room for so much now.
object_name create_object(std::size_t bytes) {
    static std::atomic<unsigned> count{0};
    object_name name{};
    fmt::format_to_n(name.data(), name.size() - 1, "/terrace-{}-{}", getpid(), count++);
    const int file = shm_open(name.data(), O_CREAT | O_EXCL | O_RDWR, 0600);
    if (file < 0) return {};
    struct statvfs there {};
    const bool fits = fstatvfs(file, &there) == 0 && bytes <= there.f_bavail * there.f_frsize;
    close(file);
    if (fits) return name;
    shm_unlink(name.data());
    return {};
}

// An object as one process sees it.
class mapping {
public:
    mapping(const object_name& name, std::size_t bytes) : bytes_(bytes) {
        if (name.front() == 0) return;
        file_ = shm_open(name.data(), O_RDWR, 0);
        if (file_ < 0) return;
        void* there = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
        if (there != MAP_FAILED) memory_ = static_cast<std::byte*>(there);
    }
    mapping(const mapping&) = delete;
    mapping& operator=(const mapping&) = delete;
    ~mapping() {
        if (memory_ != nullptr) munmap(memory_, bytes_);
        if (file_ >= 0) close(file_);
    }

    std::byte* memory() const noexcept { return memory_; }
    // Each process takes the memory of its own part, so that all clear it at once, and each gets pages near its core. A
    // full /dev/shm shows here and not at the first touch.
    bool take(std::size_t begin, std::size_t bytes) const noexcept {
        return memory_ != nullptr && posix_fallocate(file_, static_cast<off_t>(begin), static_cast<off_t>(bytes)) == 0;
    }

private:
    std::size_t bytes_;
    int file_ = -1;
    std::byte* memory_ = nullptr;
};

}  // namespace

std::optional<shared_region> posix_regions::share(team& ranks, std::span<const int> sharers, std::size_t bytes,
                                                  std::size_t at_once) {
    const std::size_t total = bytes * sharers.size();
    const bool creates = sharers.front() == ranks.rank();
    const object_name own = creates ? create_object(total) : object_name{};
    const unlinking at_the_end(own);
    std::vector<object_name> names(at(ranks.size()));
    ranks.gather_all(own.data(), names.data(), sizeof own);
    const auto object = std::make_shared<mapping>(names[at(sharers.front())], total);
    const auto part = std::find(sharers.begin(), sharers.end(), ranks.rank()) - sharers.begin();
    const auto take = [object, first = static_cast<std::size_t>(part) * bytes](std::size_t begin, std::size_t more) {
        return object->take(first + begin, more);
    };
    // All have mapped it then, or given up.
    const char is_there = take(0, at_once);
    std::vector<char> all(at(ranks.size()));
    ranks.gather_all(&is_there, all.data(), 1);
    if (!std::all_of(all.begin(), all.end(), [](char ok) { return ok != 0; })) return std::nullopt;
    shared_region region{.bytes = bytes, .parts = {}, .keep = object, .take = take};
    for (std::size_t i = 0; i < sharers.size(); ++i) region.parts.push_back(object->memory() + i * bytes);
    return region;
}

}  // namespace terrace::detail
