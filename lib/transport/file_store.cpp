#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "transport/store_bootstrap.hpp"

namespace terrace::detail {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const char* call, const fs::path& file) {
    const int code = errno;
    throw transport_error("bootstrap", call, code, fmt::format("{}: {}", file.string(), std::strerror(code)));
}

fs::path file_of(const fs::path& directory, std::string key) {
    std::replace(key.begin(), key.end(), '/', '.');
    return directory / key;
}

void write(const fs::path& file, std::string_view value) {
    const fs::path part = fmt::format("{}.{}.part", file.string(), ::getpid());
    const int to = ::open(part.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (to < 0) fail("open", part);
    while (!value.empty()) {
        const ssize_t wrote = ::write(to, value.data(), value.size());
        if (wrote < 0 && errno != EINTR) {
            ::close(to);
            fail("write", part);
        }
        if (wrote > 0) value.remove_prefix(static_cast<std::size_t>(wrote));
    }
    if (::close(to) != 0) fail("close", part);
    if (::rename(part.c_str(), file.c_str()) != 0) fail("rename", file);
}

std::optional<std::string> read(const fs::path& file) {
    const int from = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (from < 0 && errno != ENOENT && errno != ESTALE) fail("open", file);
    if (from < 0) {
        // NFS remembers for a while that a file is not there, unless somebody opens its directory.
        if (const int look = ::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); look >= 0)
            ::close(look);
        return {};
    }
    std::string value;
    std::array<char, 4096> piece{};
    ssize_t got = 0;
    while ((got = ::read(from, piece.data(), piece.size())) > 0 || (got < 0 && errno == EINTR))
        if (got > 0) value.append(piece.data(), static_cast<std::size_t>(got));
    ::close(from);
    if (got < 0) fail("read", file);
    return value;
}

}  // namespace

store file_store(const fs::path& directory, int rank, int size) {
    std::error_code problem;
    fs::create_directories(directory, problem);
    if (problem)
        throw transport_error("bootstrap", "mkdir", problem.value(),
                              fmt::format("{}: {}", directory.string(), problem.message()));
    return {
        .rank = rank,
        .size = size,
        .put = [directory](const std::string& key, const std::string& value) { write(file_of(directory, key), value); },
        .get = [directory](const std::string& key) { return read(file_of(directory, key)); },
        .remove = [directory](const std::string& key) { ::unlink(file_of(directory, key).c_str()); }};
}

}  // namespace terrace::detail
