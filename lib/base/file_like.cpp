#include "base/file_like.hpp"

#include <algorithm>
#include <cstddef>
#include <system_error>

#include <fmt/format.h>

#include "base/edit_distance.hpp"

namespace terrace::detail {

std::string file_like(const std::filesystem::path& missing) {
    constexpr int most_files = 1000;  // that are looked at
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

}  // namespace terrace::detail
