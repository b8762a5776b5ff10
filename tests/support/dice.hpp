#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace terrace::detail::test {

/// Random numbers that are equal on every machine for a seed (splitmix64).
class dice {
public:
    explicit dice(std::uint64_t seed) : state_(seed) {}

    std::uint64_t roll() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
    }
    /// Returns a number from 0 to n-1, for n >= 1.
    std::size_t below(std::size_t n) { return static_cast<std::size_t>(roll() % n); }
    bool coin() { return roll() >> 63; }
    template <class Container>
    auto& pick(Container& from) {
        return from[below(from.size())];
    }
    template <class Value>
    Value pick(std::vector<Value>&& from) {
        return std::move(from[below(from.size())]);
    }

private:
    std::uint64_t state_;
};

}  // namespace terrace::detail::test
