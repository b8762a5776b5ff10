#include "bench/measure/exact.hpp"

#include <algorithm>
#include <concepts>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <type_traits>

#include "base/element_types.hpp"

namespace terrace::detail::bench {

namespace {

constexpr std::int64_t period = 1021;  // prime: no shard, chunk or segment is a multiple of it

// The largest integer up to which the type has all integers.
template <class T>
constexpr std::int64_t largest_integer() {
    if constexpr (std::same_as<T, std::uint64_t>) return std::numeric_limits<std::int64_t>::max();
    else if constexpr (std::integral<T>) return static_cast<std::int64_t>(std::numeric_limits<T>::max());
    else return std::int64_t{1} << (fraction_bits<part_t<T>>() + 1);
}

// Returns a scrambled number, 0 to 63.
std::int64_t scrambled(int rank, std::int64_t i) noexcept {
    std::uint64_t x = static_cast<std::uint64_t>(rank) * period + static_cast<std::uint64_t>(i) + 1;
    x *= 0x9e3779b97f4a7c15;  // Fibonacci hashing; the high bits are the good ones
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93;
    return static_cast<std::int64_t>(x >> 58);
}

// Returns true for at most `most` of the ranks, which vary from element to element.
bool is_picked(int rank, std::int64_t i, std::int64_t most, int ranks) noexcept {
    const auto apart = static_cast<int>((ranks + most - 1) / most);  // one of so many neighbours is picked
    return rank % apart == scrambled(rank / apart, i) % apart;
}

// Returns true for one of the ranks at each element.
bool is_chosen(int rank, std::int64_t i, int ranks) noexcept {
    return (scrambled(1000, i) * 64 + scrambled(1001, i)) % ranks == rank;
}

// Returns an input. It is not 0 if the type has room for that, so a missing rank shows. Each result of band, bor, land
// and lor depends on one rank.
template <class T>
double value_of(reduce_op op, int rank, std::int64_t i, int ranks) noexcept {
    const std::int64_t any = scrambled(rank, i);
    switch (op) {
        case reduce_op::sum:
        case reduce_op::premul_sum:
        case reduce_op::avg:  // no partial sum exceeds the integers of the type
            if (const std::int64_t high = std::min<std::int64_t>(largest_integer<T>() / ranks, 64); high > 0)
                return static_cast<double>(any * high / 64 + 1);
            return is_picked(rank, i, largest_integer<T>(), ranks) ? static_cast<double>(any % 2) : 0;
        case reduce_op::prod:  // odd: products that wrap around still depend on all factors
            if constexpr (std::integral<T>) return static_cast<double>(2 * any + 1);
            else
                return !is_picked(rank, i, std::int64_t{max_exponent<part_t<T>>()}, ranks) ? 1 : any % 2 == 0 ? 2 : 0.5;
        case reduce_op::band: return is_chosen(rank, i, ranks) ? static_cast<double>(any) : 127;
        case reduce_op::bor: return is_chosen(rank, i, ranks) ? static_cast<double>(any) : 0;
        case reduce_op::land: return is_chosen(rank, i, ranks) && any % 2 == 0 ? 0 : 1;
        case reduce_op::lor: return is_chosen(rank, i, ranks) && any % 2 == 0 ? 1 : 0;
        case reduce_op::lxor: return static_cast<double>(any % 2);
        case reduce_op::bxor:
        case reduce_op::min:
        case reduce_op::max: break;
    }
    return static_cast<double>(any + 1);
}

template <class T>
T reduction_of(reduce_op op, const std::vector<double>& values) {
    // Integers wrap around. Averages of floats are rounded once, those of short floats from single precision.
    using wide = std::conditional_t<std::integral<T>, std::uint64_t, accumulator_t<part_t<T>>>;
    const auto fold = [&](auto&& combine) {
        return std::accumulate(values.begin() + 1, values.end(), static_cast<wide>(values.front()),
                               [&](wide sum, double v) { return combine(sum, static_cast<wide>(v)); });
    };
    if constexpr (std::integral<T>) {
        if (op == reduce_op::band) return static_cast<T>(fold(std::bit_and<>()));
        if (op == reduce_op::bor) return static_cast<T>(fold(std::bit_or<>()));
        if (op == reduce_op::land) return static_cast<T>(fold(std::logical_and<>()));
        if (op == reduce_op::lor) return static_cast<T>(fold(std::logical_or<>()));
        if (op == reduce_op::bxor || op == reduce_op::lxor) return static_cast<T>(fold(std::bit_xor<>()));
    }
    switch (op) {
        case reduce_op::sum:
        case reduce_op::premul_sum: return static_cast<T>(fold(std::plus<>()));
        case reduce_op::avg: return static_cast<T>(fold(std::plus<>()) / static_cast<wide>(values.size()));
        case reduce_op::prod: return static_cast<T>(fold(std::multiplies<>()));
        case reduce_op::min: return static_cast<T>(fold([](wide a, wide b) { return std::min(a, b); }));
        default: break;
    }
    return static_cast<T>(fold([](wide a, wide b) { return std::max(a, b); }));
}

template <class T>
void store(std::vector<std::byte>& tile, std::int64_t i, T x) {
    std::memcpy(tile.data() + static_cast<std::size_t>(i) * sizeof x, &x, sizeof x);
}

// Calls visit(first element, elements, place in the period) for every period that the elements from `first` on touch.
template <class Visit>
void each_period(std::int64_t first, std::int64_t count, Visit visit) {
    for (std::int64_t begin = 0; begin < count;) {
        const std::int64_t place = (first + begin) % period;
        const std::int64_t n = std::min(period - place, count - begin);
        visit(static_cast<std::size_t>(begin), static_cast<std::size_t>(n), static_cast<std::size_t>(place));
        begin += n;
    }
}

}  // namespace

exact_data::exact_data(element_type type, reduce_op op, int rank, int ranks)
    : type_(type), op_(op), ranks_(ranks), element_(size_of(type)), input_(input_of(rank)), result_(reduction()) {}

exact_data::tile exact_data::input_of(int rank) const {
    tile t(element_ * period);
    with_type(type_, [&]<class T>(std::type_identity<T>) {
        for (std::int64_t i = 0; i < period; ++i)
            store(t, i, static_cast<T>(static_cast<float>(value_of<T>(op_, rank, i, ranks_))));
    });
    return t;
}

exact_data::tile exact_data::reduction() const {
    tile t(element_ * period);
    with_type(type_, [&]<class T>(std::type_identity<T>) {
        std::vector<double> values(static_cast<std::size_t>(ranks_));
        for (std::int64_t i = 0; i < period; ++i) {
            for (int r = 0; r < ranks_; ++r) values[static_cast<std::size_t>(r)] = value_of<T>(op_, r, i, ranks_);
            store(t, i, reduction_of<T>(op_, values));
        }
    });
    return t;
}

void exact_data::fill(std::byte* data, std::int64_t count) const noexcept {
    each_period(0, count, [&](std::size_t begin, std::size_t n, std::size_t) {
        std::memcpy(data + begin * element_, input_.data(), n * element_);
    });
}

std::int64_t exact_data::wrong_results(const std::byte* data, std::int64_t first, std::int64_t count,
                                       double rounding) const noexcept {
    if (rounding == 0) return wrong(result_, data, first, count);
    const double together = largest_together() / (op_ == reduce_op::avg ? ranks_ : 1);
    return beyond(rounding * together, data, first, count);
}

// Returns the sum over ranks of their largest elements.
double exact_data::largest_together() const {
    double sum = 0;
    for (int r = 0; r < ranks_; ++r)
        with_type(type_, [&]<class T>(std::type_identity<T>) {
            double largest = 0;
            for (std::int64_t i = 0; i < period; ++i) largest = std::max(largest, value_of<T>(op_, r, i, ranks_));
            sum += largest;
        });
    return sum;
}

// Counts floats that differ from the result by more than `error`, or are NaN.
std::int64_t exact_data::beyond(double error, const std::byte* data, std::int64_t first,
                                std::int64_t count) const noexcept {
    std::int64_t bad = 0;
    each_period(first, count, [&](std::size_t begin, std::size_t n, std::size_t place) {
        with_type(type_, [&]<class T>(std::type_identity<T>) {
            if constexpr (is_real(element_type_of<T>))
                for (std::size_t i = 0; i < n; ++i) {
                    T got, right;
                    std::memcpy(&got, data + (begin + i) * sizeof(T), sizeof(T));
                    std::memcpy(&right, result_.data() + (place + i) * sizeof(T), sizeof(T));
                    using wide = accumulator_t<T>;
                    const double away = static_cast<double>(static_cast<wide>(got) - static_cast<wide>(right));
                    bad += !(std::abs(away) <= error);
                }
        });
    });
    return bad;
}

// None of these numbers has two representations, so bytes compare as values do.
std::int64_t exact_data::wrong(const tile& expected, const std::byte* data, std::int64_t first,
                               std::int64_t count) const noexcept {
    std::int64_t bad = 0;
    each_period(first, count, [&](std::size_t begin, std::size_t n, std::size_t place) {
        const std::byte* got = data + begin * element_;
        const std::byte* right = expected.data() + place * element_;
        if (std::memcmp(got, right, n * element_) == 0) return;
        for (std::size_t i = 0; i < n; ++i) bad += std::memcmp(got + i * element_, right + i * element_, element_) != 0;
    });
    return bad;
}

void exact_data::spoil(std::byte* data, std::int64_t count) const noexcept {
    std::memset(data, 0xff, static_cast<std::size_t>(count) * element_);  // NaN
}

}  // namespace terrace::detail::bench
