#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>

namespace terrace::detail::sim {

using number_pair = std::pair<std::int64_t, int>;

struct number_pair_hash {
    std::size_t operator()(const number_pair& p) const noexcept {
        return std::hash<std::int64_t>()(p.first * 1'000'003 + p.second);
    }
};

/// A map by two numbers: two ranks, or a chunk and a stage instance.
template <class T>
using pair_map = std::unordered_map<number_pair, T, number_pair_hash>;

}  // namespace terrace::detail::sim
