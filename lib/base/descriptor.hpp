#pragma once

#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

namespace terrace::detail {

/// A file descriptor that is closed at the end; -1: none.
class descriptor {
public:
    descriptor() = default;
    explicit descriptor(int fd) noexcept : fd_(fd) {}
    descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    descriptor& operator=(descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~descriptor() { close(); }

    /// Returns false, and sets errno, if what has been written may be lost. Where a signal interrupts close(2), the
    /// descriptor is closed, too.
    bool close() noexcept { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0 || errno == EINTR; }
    int get() const noexcept { return fd_; }
    explicit operator bool() const noexcept { return fd_ >= 0; }

private:
    int fd_ = -1;
};

/// Makes a system call again each time that a signal interrupts it.
/// @param call returns -1 and sets errno where it fails   @returns what the last one returns
template <class Call>
auto uninterrupted(const Call& call) {
    while (true)
        if (const auto result = call(); result != -1 || errno != EINTR) return result;
}

/// Writes all of a text where the file's position is. Returns false, and sets errno, if that is impossible.
inline bool write_whole(int file, std::string_view text) noexcept {
    while (!text.empty()) {
        const ssize_t written = uninterrupted([&] { return ::write(file, text.data(), text.size()); });
        if (written < 0) return false;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

}  // namespace terrace::detail
