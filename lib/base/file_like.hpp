#pragma once

#include <filesystem>
#include <string>

namespace terrace::detail {

/// Returns "; did you mean plan.yaml?" for a missing file plan.yml: the file of the same folder whose name differs from
/// it least, in at most one letter of six, and two in all. An empty text if there is none.
std::string file_like(const std::filesystem::path& missing);

}  // namespace terrace::detail
