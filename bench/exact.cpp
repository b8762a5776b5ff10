#include "bench/exact.hpp"

#include <algorithm>
#include <cstring>

namespace terrace::bench {

namespace {

constexpr std::int64_t period = 1021;  // prime: no shard, chunk or segment is a multiple of it

// 1 ... 64: never 0, so that leaving it out shows, and sums of 2^18 ranks are exact in single precision.
int value(int rank, std::int64_t i) noexcept {
    std::uint64_t x = static_cast<std::uint64_t>(rank) * period + static_cast<std::uint64_t>(i) + 1;
    x *= 0x9e3779b97f4a7c15;  // Fibonacci hashing; the high bits are the good ones
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93;
    return static_cast<int>(x >> 58) + 1;
}

template <class T>
void store(std::vector<std::byte>& tile, std::int64_t i, std::int64_t v) {
    const T x = static_cast<T>(v);
    std::memcpy(tile.data() + static_cast<std::size_t>(i) * sizeof x, &x, sizeof x);
}

// Calls visit(first element, elements) for every period, the last one cut short.
template <class Visit>
void each_period(std::int64_t count, Visit visit) {
    for (std::int64_t begin = 0; begin < count; begin += period)
        visit(static_cast<std::size_t>(begin), static_cast<std::size_t>(std::min(period, count - begin)));
}

}  // namespace

exact_data::exact_data(element_type type, int rank, int ranks)
    : element_(size_of(type)), input_(element_ * period), sum_(element_ * period) {
    for (std::int64_t i = 0; i < period; ++i) {
        std::int64_t total = 0;
        for (int r = 0; r < ranks; ++r) total += value(r, i);
        const auto put = [&](auto zero) {
            store<decltype(zero)>(input_, i, value(rank, i));
            store<decltype(zero)>(sum_, i, total);
        };
        if (type == element_type::float32) put(0.0F);
        else put(0.0);
    }
}

void exact_data::fill(std::byte* data, std::int64_t count) const noexcept {
    each_period(count, [&](std::size_t begin, std::size_t n) {
        std::memcpy(data + begin * element_, input_.data(), n * element_);
    });
}

// Positive integers have one representation, so bytes compare as values do.
std::int64_t exact_data::wrong(const std::byte* data, std::int64_t count) const noexcept {
    std::int64_t bad = 0;
    each_period(count, [&](std::size_t begin, std::size_t n) {
        const std::byte* got = data + begin * element_;
        if (std::memcmp(got, sum_.data(), n * element_) == 0) return;
        for (std::size_t i = 0; i < n; ++i)
            bad += std::memcmp(got + i * element_, sum_.data() + i * element_, element_) != 0;
    });
    return bad;
}

void exact_data::spoil(std::byte* data, std::int64_t count) const noexcept {
    std::memset(data, 0xff, static_cast<std::size_t>(count) * element_);  // NaN
}

}  // namespace terrace::bench
