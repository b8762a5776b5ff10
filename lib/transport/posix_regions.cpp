#include "transport/shared_region.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

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

// Creates an object with memory behind every byte of it, so that a full /dev/shm shows now and not at the first touch.
object_name create_object(std::size_t bytes) {
    static std::atomic<unsigned> count{0};
    object_name name{};
    fmt::format_to_n(name.data(), name.size() - 1, "/terrace-{}-{}", getpid(), count++);
    const int file = shm_open(name.data(), O_CREAT | O_EXCL | O_RDWR, 0600);
    if (file < 0) return {};
    const bool there = posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0;
    close(file);
    if (there) return name;
    shm_unlink(name.data());
    return {};
}

std::byte* map_object(const object_name& name, std::size_t bytes) {
    if (name.front() == 0) return nullptr;
    const int file = shm_open(name.data(), O_RDWR, 0);
    if (file < 0) return nullptr;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

}  // namespace

std::optional<shared_region> posix_regions::share(team& ranks, std::span<const int> sharers, std::size_t bytes) {
    const std::size_t total = bytes * sharers.size();
    const bool creates = sharers.front() == ranks.rank();
    const object_name own = creates ? create_object(total) : object_name{};
    const unlinking at_the_end(own);
    std::vector<object_name> names(at(ranks.size()));
    ranks.gather_all(own.data(), names.data(), sizeof own);
    std::byte* memory = map_object(names[at(sharers.front())], total);
    shared_region region{.bytes = bytes, .parts = {}, .keep = {}};
    if (memory != nullptr) {
        region.keep = std::shared_ptr<void>(memory, [total](void* p) { munmap(p, total); });
        for (std::size_t i = 0; i < sharers.size(); ++i) region.parts.push_back(memory + i * bytes);
    }
    // All have mapped it now, or given up.
    const char mapped = memory != nullptr;
    std::vector<char> all(at(ranks.size()));
    ranks.gather_all(&mapped, all.data(), 1);
    if (!std::all_of(all.begin(), all.end(), [](char ok) { return ok != 0; })) return std::nullopt;
    return region;
}

}  // namespace terrace::detail
