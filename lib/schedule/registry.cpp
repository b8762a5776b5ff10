#include "schedule/registry.hpp"

#include <array>

#include "schedule/generate/generators.hpp"

namespace terrace {

namespace {

constexpr std::array table{
    algorithm{.name = "ring",
              .summary = "shards travel around the ring: p - 1 exchanges with one neighbour",
              .reduce_scatter = ring_reduce_scatter,
              .allgather = ring_allgather,
              .rounds = [](int p) { return p - 1; }},
    algorithm{.name = "halving",
              .summary = "circulant exchange: ceil(lg p) exchanges, each of half of what is left, for every p",
              .reduce_scatter = halving_reduce_scatter,
              .allgather = halving_allgather,
              .rounds = ceil_log2},
    algorithm{.name = "direct",
              .summary = "everybody exchanges with everybody at once; one reduction of all inputs",
              .reduce_scatter = direct_reduce_scatter,
              .allgather = direct_allgather,
              .reduce = direct_reduce,
              .broadcast = direct_broadcast,
              .allreduce = direct_allreduce,
              .rounds = [](int) { return 1; }},
    algorithm{.name = "tree",
              .summary = "binomial tree to and from the root",
              .reduce = tree_reduce,
              .broadcast = tree_broadcast,
              .rounds = ceil_log2},
    algorithm{.name = "doubling",
              .summary = "recursive doubling of the whole piece; ranks beyond a power of two fold in and copy out",
              .allreduce = doubling_allreduce,
              .rounds = doubling_rounds},
    algorithm{.name = "native",
              .summary = "the transport's own collective; direct or doubling where it has none",
              .reduce_scatter = native_reduce_scatter,
              .allgather = native_allgather,
              .reduce = native_reduce,
              .broadcast = native_broadcast,
              .allreduce = native_allreduce,
              .rounds = [](int) { return 1; }},
};

}  // namespace

bool algorithm::supports(mode m) const noexcept { return up(m) != nullptr; }

algorithm::generator algorithm::up(mode m) const noexcept {
    return m == mode::scatter ? reduce_scatter : m == mode::root ? reduce : allreduce;
}

algorithm::generator algorithm::down(mode m) const noexcept {
    return m == mode::scatter ? allgather : m == mode::root ? broadcast : nullptr;
}

std::span<const algorithm> algorithms() noexcept { return table; }

const algorithm* find_algorithm(std::string_view name) noexcept {
    for (const algorithm& a : table)
        if (a.name == name) return &a;
    return nullptr;
}

std::string algorithm_names(mode m) {
    std::string names;
    for (const algorithm& a : table) {
        if (!a.supports(m)) continue;
        if (!names.empty()) names += ", ";
        names += a.name;
    }
    return names;
}

}  // namespace terrace
