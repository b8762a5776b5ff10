#include "base/text_file.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/descriptor.hpp"
#include "base/edit_distance.hpp"
#include "base/units.hpp"

namespace terrace::detail {

namespace {

[[noreturn]] void fail_with_errno(const std::filesystem::path& file, std::string_view what) {
    throw input_error(file.string(), 0, 0, fmt::format("{}: {}", what, std::strerror(errno)));
}

}  // namespace

std::string file_like(const std::filesystem::path& missing) {
    constexpr int most_files = 1000;  // compared at most
    const std::size_t most_letters = std::clamp<std::size_t>(missing.filename().native().size() / 6, 1, 2);
    const std::filesystem::path folder = missing.parent_path();
    std::error_code trouble;
    if (std::filesystem::exists(missing, trouble)) return "";
    std::filesystem::directory_iterator file(folder.empty() ? "." : folder, trouble);
    std::filesystem::path nearest;
    std::size_t least = most_letters + 1;
    for (int i = 0; i < most_files && !trouble && file != std::filesystem::directory_iterator(); ++i) {
        const std::filesystem::path name = file->path().filename();
        const std::size_t distance = edit_distance(missing.filename().string(), name.string());
        if (distance > 0 && distance < least) {
            nearest = folder / name;
            least = distance;
        }
        file.increment(trouble);
    }
    return nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest.string());
}

void expect_regular(const std::filesystem::path& file) {
    std::error_code ignored;
    const std::filesystem::file_status status = std::filesystem::status(file, ignored);
    if (std::filesystem::is_directory(status)) throw input_error(file.string(), 0, 0, "is a directory; name a file");
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
        throw input_error(file.string(), 0, 0, "is no regular file; write what it gives to one, and name that");
}

std::string read_text(const std::filesystem::path& file, std::size_t max_bytes) {
    expect_regular(file);
    errno = 0;
    std::ifstream in(file, std::ios::binary);
    if (!in) {
        const std::string why = std::strerror(errno);
        throw input_error(file.string(), 0, 0, fmt::format("cannot be opened: {}{}", why, file_like(file)));
    }
    std::string text;
    std::string block(64 << 10, '\0');
    while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
        text.append(block, 0, static_cast<std::size_t>(in.gcount()));
        if (text.size() > max_bytes)
            throw input_error(file.string(), 0, 0,
                              fmt::format("larger than {}", format_bytes(static_cast<std::int64_t>(max_bytes))));
    }
    if (in.bad()) fail_with_errno(file, "cannot be read");
    if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
    return text;
}

namespace {

// Follows symbolic links to a file, which need not exist yet.
std::filesystem::path end_of_links(const std::filesystem::path& file) {
    constexpr int most = 40;  // the limit of Linux
    std::filesystem::path end = file;
    for (int links = 0; std::filesystem::is_symlink(std::filesystem::symlink_status(end)); ++links) {
        errno = ELOOP;
        if (links == most) fail_with_errno(file, "cannot be written");
        end = end.parent_path() / std::filesystem::read_symlink(end);
    }
    return end;
}

// A new file in the directory of `target`, with the permissions of the target if that exists. The destructor removes
// the file unless it has become the target.
class temporary_file {
public:
    explicit temporary_file(const std::filesystem::path& target) : target_(target) {
        std::error_code ignored;
        const std::filesystem::file_status old = std::filesystem::status(target, ignored);
        const mode_t mode = std::filesystem::exists(old) ? static_cast<mode_t>(old.permissions()) : 0666;
        static std::atomic<unsigned> counter = 0;
        do {
            path_ = target;
            path_.replace_filename(fmt::format(".{}.{}.{}", target.filename().string(), ::getpid(), ++counter));
            file_ = descriptor(
                uninterrupted([&] { return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode); }));
        } while (!file_ && errno == EEXIST);
        if (!file_) fail_with_errno(target_, "cannot be written");
        if (std::filesystem::exists(old)) ::fchmod(file_.get(), mode);  // permissions that the umask removed
    }
    temporary_file(const temporary_file&) = delete;
    temporary_file& operator=(const temporary_file&) = delete;
    ~temporary_file() {
        if (!path_.empty()) ::unlink(path_.c_str());
    }

    void move_to_target_with(std::string_view content) {
        const bool is_stored =
            write_whole(file_.get(), content) && uninterrupted([&] { return ::fsync(file_.get()); }) == 0;
        if (!is_stored || !file_.close() || ::rename(path_.c_str(), target_.c_str()) != 0)
            fail_with_errno(target_, "cannot be written");
        path_.clear();
    }

private:
    std::filesystem::path target_;
    std::filesystem::path path_;
    descriptor file_;
};

}  // namespace

void write_atomically(const std::filesystem::path& file, std::string_view content) {
    std::error_code ignored;
    const std::filesystem::file_status status = std::filesystem::status(file, ignored);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
        errno = 0;
        std::ofstream out(file, std::ios::binary | std::ios::app);
        if (!out.write(content.data(), static_cast<std::streamsize>(content.size())).flush())
            fail_with_errno(file, "cannot be written");
        return;
    }
    // A symbolic link is kept; its target is replaced, or created.
    temporary_file(end_of_links(file)).move_to_target_with(content);
}

}  // namespace terrace::detail
