#pragma once

#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

namespace terrace::detail {

/// A file descriptor that the destructor closes; -1: none.
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

    /// Closes the descriptor, if any. Returns false and sets errno if written data may be lost. The descriptor is also
    /// closed if a signal interrupts close(2).
    bool close() noexcept { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0 || errno == EINTR; }
    int get() const noexcept { return fd_; }
    explicit operator bool() const noexcept { return fd_ >= 0; }

private:
    int fd_ = -1;
};

/// Repeats a system call until no signal interrupts it.
/// @param call returns -1 and sets errno on failure   @returns the result of the last call
template <class Call>
auto uninterrupted(const Call& call) {
    while (true)
        if (const auto result = call(); result != -1 || errno != EINTR) return result;
}

/// Writes a whole text at the file's position. Returns false and sets errno on failure.
inline bool write_whole(int file, std::string_view text) noexcept {
    while (!text.empty()) {
        const ssize_t written = uninterrupted([&] { return ::write(file, text.data(), text.size()); });
        if (written < 0) return false;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

}  // namespace terrace::detail
