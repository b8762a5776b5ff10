#include "golden/convert_v1.hpp"

#include <regex>
#include <sstream>

namespace terrace::detail::test {

namespace {

const std::regex version{"^terrace_plan: 1$"};
const std::regex level_between_gpus{"^    - \\{name: [^,]+, .*fabric: (nvlink|pcie),"};
const std::regex method{"algorithm: (\\w+)(?:, weights: (\\[[^\\]]*\\]))?(?:, over: (\\w+))?(?:, first: (\\d+))?\\}"};

// Format 1 named Terrace's algorithms and the collectives of providers under one key. `native` was NCCL's between GPUs,
// shared memory's elsewhere.
std::string runner_of(const std::smatch& m, bool on_gpus) {
    const std::string by = m[1], over = m[3];
    if (by == "native") return on_gpus ? "provider: nccl" : "provider: shared_memory";
    if (by == "mpi") return "provider: mpi";
    return (over == "mpi" ? "provider: mpi, algorithm: " : "algorithm: ") + by;
}

}  // namespace

std::string convert_v1(std::string_view plan) {
    std::istringstream in{std::string(plan)};
    std::string converted;
    bool on_gpus = false, seen_level = false;
    for (std::string line; std::getline(in, line); converted += line + '\n') {
        if (std::regex_search(line, version)) line = "terrace_plan: 2";
        // The innermost level tells what ranks are.
        if (!seen_level && line.starts_with("    - {name: ")) {
            on_gpus = std::regex_search(line, level_between_gpus);
            seen_level = true;
        }
        std::smatch m;
        if (!std::regex_search(line, m, method)) continue;
        std::string keys = runner_of(m, on_gpus);
        if (m[2].matched) keys += ", shares: " + m[2].str();
        if (m[4].matched) keys += ", route_share: " + m[4].str();
        line = m.prefix().str() + keys + "}" + m.suffix().str();
    }
    return converted;
}

}  // namespace terrace::detail::test
