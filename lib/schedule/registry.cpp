#include "schedule/registry.hpp"

#include <algorithm>
#include <array>

// The table. A row names an algorithm; generate/NAME.cpp describes it by a function generate_NAME().
#define TERRACE_ALGORITHMS(row) \
    row(ring) row(biring) row(halving) row(direct) row(tree) row(chain) row(doubling) row(native) row(mpi)

namespace terrace {

#define TERRACE_DECLARE(name) algorithm generate_##name();
TERRACE_ALGORITHMS(TERRACE_DECLARE)
#undef TERRACE_DECLARE

bool algorithm::supports(mode m) const noexcept { return up(m) != nullptr; }

algorithm::generator algorithm::up(mode m) const noexcept {
    return m == mode::scatter ? reduce_scatter : m == mode::root ? reduce : allreduce;
}

algorithm::generator algorithm::down(mode m) const noexcept {
    return m == mode::scatter ? allgather : m == mode::root ? broadcast : nullptr;
}

std::span<const algorithm> algorithms() noexcept {
#define TERRACE_ENTRY(name) generate_##name(),
    static const std::array table{TERRACE_ALGORITHMS(TERRACE_ENTRY)};
#undef TERRACE_ENTRY
    return table;
}

const algorithm* find_algorithm(std::string_view name) noexcept {
    for (const algorithm& a : algorithms())
        if (a.name == name) return &a;
    return nullptr;
}

bool all_send(std::span<const stage> stages) noexcept {
    return std::all_of(stages.begin(), stages.end(),
                       [](const stage& s) { return find_algorithm(s.algorithm)->sends(); });
}

std::string algorithm_names(mode m) {
    std::string names;
    for (const algorithm& a : algorithms()) {
        if (!a.supports(m)) continue;
        if (!names.empty()) names += ", ";
        names += a.name;
    }
    return names;
}

}  // namespace terrace
