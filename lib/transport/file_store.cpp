#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/descriptor.hpp"
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

descriptor open(const fs::path& file, int flags) {
    return descriptor(uninterrupted([&] { return ::open(file.c_str(), flags | O_CLOEXEC, 0600); }));
}

void write(const fs::path& file, std::string_view value) {
    const fs::path part = fmt::format("{}.{}.part", file.string(), ::getpid());
    descriptor to = open(part, O_CREAT | O_TRUNC | O_WRONLY);
    if (!to) fail("open", part);
    if (!write_whole(to.get(), value)) fail("write", part);
    if (!to.close()) fail("close", part);
    if (::rename(part.c_str(), file.c_str()) != 0) fail("rename", file);
}

std::optional<std::string> read(const fs::path& file) {
    const descriptor from = open(file, O_RDONLY);
    if (!from && errno != ENOENT && errno != ESTALE) fail("open", file);
    if (!from) {
        // NFS remembers for a while that a file is not there, unless somebody opens its directory.
        open(file.parent_path(), O_RDONLY | O_DIRECTORY);
        return {};
    }
    std::string value;
    std::array<char, 4096> piece{};
    ssize_t got = 0;
    while ((got = uninterrupted([&] { return ::read(from.get(), piece.data(), piece.size()); })) > 0)
        value.append(piece.data(), static_cast<std::size_t>(got));
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
