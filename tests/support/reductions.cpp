#include "support/reductions.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "base/element_types.hpp"
#include "kernels/arithmetic.hpp"
#include "kernels/reduce.hpp"
#include "support/calls.hpp"

namespace terrace::detail::test {

namespace {

constexpr std::byte poison{0xb5};
constexpr std::size_t gap = 48;  // [bytes] of poison between buffers, at least

template <class T>
T read(const std::byte* from, std::int64_t i) {
    T x;
    std::memcpy(&x, from + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return x;
}

double read_float(element_type type, const std::byte* from, std::int64_t i) {
    return with_type(type, [&]<class T>(std::type_identity<T>) -> double {
        if constexpr (is_complex<T>) return 0;
        else return static_cast<accumulator_t<T>>(read<T>(from, i));
    });
}

// Returns a complex number; 0 for other types.
std::complex<double> read_complex(element_type type, const std::byte* from, std::int64_t i) {
    return with_type(type, [&]<class T>(std::type_identity<T>) -> std::complex<double> {
        if constexpr (is_complex<T>) return read<T>(from, i);
        else return 0;
    });
}

// Returns the type of the parts of a complex type; other types unchanged.
element_type part_type(element_type type) {
    return with_type(type, []<class T>(std::type_identity<T>) { return element_type_of<part_t<T>>; });
}

// Returns an integer in 64 bits. Sums and products are right modulo 2^64.
std::int64_t read_integer(element_type type, const std::byte* from, std::int64_t i) {
    return with_type(type, [&]<class T>(std::type_identity<T>) -> std::int64_t {
        if constexpr (is_complex<T>) return 0;
        else return static_cast<std::int64_t>(static_cast<accumulator_t<T>>(read<arithmetic::kernel_t<T>>(from, i)));
    });
}

std::int64_t wrapped(element_type type, std::int64_t x) {
    return with_type(type, [&]<class T>(std::type_identity<T>) -> std::int64_t {
        if constexpr (is_complex<T>) return 0;
        else return static_cast<std::int64_t>(static_cast<accumulator_t<T>>(x));
    });
}

bool is_unsigned(element_type type) {
    return with_type(type, []<class T>(std::type_identity<T>) { return std::is_unsigned_v<T>; });
}

// Returns the mantissa's bits of a floating-point type; 0 for others.
int fraction_bits_of(element_type type) {
    return with_type(type, []<class T>(std::type_identity<T>) {
        if constexpr (is_float_element<part_t<T>>) return fraction_bits<part_t<T>>();
        else return 0;
    });
}

// Writes a number with an absolute value from 0.5 to 2, so no result overflows or vanishes.
void write_number(element_type type, std::byte* to, dice& random) {
    const double x =
        (random.coin() ? 1.0 : -1.0) * std::exp2(static_cast<double>(random.below(1u << 20)) * 0x1p-19 - 1);
    with_type(type, [&]<class T>(std::type_identity<T>) {
        const T value = static_cast<T>(static_cast<accumulator_t<T>>(static_cast<part_t<accumulator_t<T>>>(x)));
        std::memcpy(to, &value, sizeof value);
    });
}

// Writes zero, infinity, NaN, the smallest or largest subnormal, or the largest number, with any sign.
void write_special(element_type type, std::byte* to, dice& random) {
    const int mantissa = fraction_bits_of(type), bits = static_cast<int>(8 * size_of(type));
    const std::uint64_t one = 1, infinity = (one << (bits - 1)) - (one << mantissa);
    const std::uint64_t value = random.pick(std::vector<std::uint64_t>{0, 0, infinity, infinity + 1 + random.below(99),
                                                                       1, (one << mantissa) - 1, infinity - 1});
    const std::uint64_t with_sign = value | static_cast<std::uint64_t>(random.coin()) << (bits - 1);
    std::memcpy(to, &with_sign, size_of(type));  // the lowest bytes
}

// Returns random bits. For band or bor only few bits are 0 or 1, since otherwise nearly all results would be equal.
std::uint64_t sparse(dice& random, reduce_op op) {
    const std::uint64_t bits = random.roll();
    const bool lone = op == reduce_op::land || op == reduce_op::lor || op == reduce_op::lxor;
    if (lone) return random.below(4) == 0 ? 0 : bits;
    if (op != reduce_op::band && op != reduce_op::bor) return bits;
    const std::uint64_t few = bits & random.roll() & random.roll();
    return op == reduce_op::bor ? few : ~few;
}

// Returns the largest error of a result of k inputs, relative to the sum (or product) of the inputs' sizes.
double tolerance(const reduction::form& f) {
    const int fraction = fraction_bits_of(f.type);
    const double wide = part_type(f.type) == element_type::float64 ? 0x1p-53 : 0x1p-24;
    const bool narrow = std::ldexp(1, -fraction - 1) > wide;
    const double last = narrow ? std::ldexp(1, -fraction - 1) : 0;
    return 1.001 * ((narrow ? f.k + 1 : f.k) * wide + last);
}

}  // namespace

reduction::reduction(const form& what, dice& random) : what_(what) {
    const std::size_t size = size_of(what.type), length = static_cast<std::size_t>(what.count) * size;
    std::size_t end = 0;
    const auto place = [&] {
        end = (end + gap + 15) / 16 * 16 + (what.aligned ? 0 : random.below(16 / size) * size);
        const std::size_t at = end;
        end += length;
        return at;
    };
    // In half of these cases all buffers have the same offset from 16 bytes.
    const std::size_t alike = what.aligned && random.coin() ? random.below(16 / size) * size : 0;
    for (int s = 0; s < what.k; ++s) sources_.push_back(place() + alike);
    dst_ = what.in_place ? random.pick(sources_) : place() + alike;
    bytes_ = end + alike + gap;
    room_.assign(bytes_ + alignment, poison);
    const std::size_t over = reinterpret_cast<std::uintptr_t>(room_.data()) & (alignment - 1);
    arena_ = room_.data() + (over == 0 ? 0 : alignment - over);
    for (const std::size_t source : sources_)
        for (std::size_t at = source; at < source + length; at += size) {
            const element_type part = part_type(what.type);
            for (std::size_t p = 0; p < size; p += size_of(part)) {
                const std::uint64_t bits = sparse(random, what.op);
                if (!is_float(part) || what.any_bits) std::memcpy(arena_ + at + p, &bits, size_of(part));
                if (!is_float(part)) continue;
                if (!what.any_bits) write_number(part, arena_ + at + p, random);
                else if (random.below(3) == 0) write_special(part, arena_ + at + p, random);
            }
        }
}

std::string reduction::name() const {
    return fmt::format("{} {} of {} x {}, divided by {}{}{}", to_string(what_.type), to_string(what_.op), what_.k,
                       what_.count, what_.divisor, what_.in_place ? ", in place" : "",
                       what_.aligned ? "" : ", not aligned");
}

std::string reduction::wrong(const std::byte* after) const {
    // All bytes but the result's must be unchanged.
    const std::size_t length = static_cast<std::size_t>(what_.count) * size_of(what_.type);
    for (std::size_t at = 0; at < bytes_; ++at)
        if ((at < dst_ || at >= dst_ + length) && after[at] != arena_[at])
            return fmt::format("{}: byte {} is not the result's ({} to {}), but written", name(), at, dst_,
                               dst_ + length);
    return what_.any_bits ? differs(after) : misses(after);
}

std::string reduction::differs(const std::byte* after) const {
    const std::size_t size = size_of(what_.type), length = static_cast<std::size_t>(what_.count) * size;
    std::vector<std::uint64_t> expected(length / 8 + 1);
    std::vector<const void*> from;
    for (const std::size_t source : sources_) from.push_back(arena_ + source);
    if (what_.k == 1) {
        // A reduction of one input makes NaN canonical, as the maximum of its parts with themselves does.
        from.push_back(from.front());
        const element_type part = what_.type == element_type::boolean ? element_type::uint8 : part_type(what_.type);
        const auto parts = static_cast<std::int64_t>(size / size_of(part));
        find_reduce(part, reduce_op::max)(expected.data(), from.data(), 2, what_.count * parts, 1);
    } else {
        find_reduce(what_.type, what_.op)(expected.data(), from.data(), what_.k, what_.count, what_.divisor);
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(expected.data());
    const auto [is, should] = std::mismatch(after + dst_, after + dst_ + length, bytes);
    if (should == bytes + length) return "";
    return fmt::format("{}: element {} has other bits than on the host", name(),
                       static_cast<std::size_t>(should - bytes) / size);
}

std::string reduction::misses(const std::byte* after) const {
    const form& f = what_;
    for (std::int64_t i = 0; i < f.count; ++i) {
        if (part_type(f.type) != f.type) {
            std::complex<double> exact = read_complex(f.type, arena_ + sources_[0], i);
            double parts = std::abs(exact);
            for (int s = 1; s < f.k; ++s) {
                const auto x = read_complex(f.type, arena_ + sources_[static_cast<std::size_t>(s)], i);
                if (f.op == reduce_op::prod) exact *= x, parts *= std::abs(x);
                else exact += x, parts += std::abs(x);
            }
            exact /= f.divisor, parts /= f.divisor;
            const std::complex<double> is = read_complex(f.type, after + dst_, i);
            // A complex product rounds three times.
            if (!(std::abs(is - exact) <= 3 * tolerance(f) * parts))
                return fmt::format("{}: element {} is {} {}, not {} {}", name(), i, is.real(), is.imag(), exact.real(),
                                   exact.imag());
            continue;
        }
        if (is_float(f.type)) {
            double exact = read_float(f.type, arena_ + sources_[0], i), parts = std::abs(exact);
            for (int s = 1; s < f.k; ++s) {
                const double x = read_float(f.type, arena_ + sources_[static_cast<std::size_t>(s)], i);
                switch (f.op) {
                    case reduce_op::prod: exact *= x, parts *= std::abs(x); break;
                    case reduce_op::min: exact = std::min(exact, x), parts = 0; break;
                    case reduce_op::max: exact = std::max(exact, x), parts = 0; break;
                    default: exact += x, parts += std::abs(x);
                }
            }
            exact /= f.divisor, parts /= f.divisor;
            const double is = read_float(f.type, after + dst_, i);
            if (!(std::abs(is - exact) <= tolerance(f) * parts))
                return fmt::format("{}: element {} is {}, not {}", name(), i, is, exact);
            continue;
        }
        auto exact = static_cast<std::uint64_t>(read_integer(f.type, arena_ + sources_[0], i));
        const bool positive = is_unsigned(f.type);
        for (int s = 1; s < f.k; ++s) {
            const auto x =
                static_cast<std::uint64_t>(read_integer(f.type, arena_ + sources_[static_cast<std::size_t>(s)], i));
            const bool less = positive ? x < exact : static_cast<std::int64_t>(x) < static_cast<std::int64_t>(exact);
            switch (f.op) {
                case reduce_op::prod: exact *= x; break;
                case reduce_op::band: exact &= x; break;
                case reduce_op::bor: exact |= x; break;
                case reduce_op::bxor: exact ^= x; break;
                case reduce_op::land: exact = exact != 0 && x != 0; break;
                case reduce_op::lor: exact = exact != 0 || x != 0; break;
                case reduce_op::lxor: exact = (exact != 0) != (x != 0); break;
                case reduce_op::min: exact = less ? x : exact; break;
                case reduce_op::max: exact = less ? exact : x; break;
                default: exact += x;
            }
        }
        const std::int64_t whole = wrapped(f.type, static_cast<std::int64_t>(exact));
        const std::int64_t expected =
            positive
                ? static_cast<std::int64_t>(static_cast<std::uint64_t>(whole) / static_cast<std::uint64_t>(f.divisor))
                : whole / f.divisor;
        const std::int64_t is = read_integer(f.type, after + dst_, i);
        if (is != expected) return fmt::format("{}: element {} is {}, not {}", name(), i, is, expected);
    }
    return "";
}

std::vector<reduction::form> reduction_forms(std::int64_t tile, dice& random) {
    std::vector<reduction::form> all;
    for (const element_type type : all_element_types) {
        const auto size = static_cast<std::int64_t>(size_of(type));
        const std::int64_t vector = 16 / size, whole = tile / size;
        for (const reduce_op op : ops_of(type))
            for (const int k : {1, 2, 3, 4, 5, 9})
                for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, vector - 1, vector, 3 * vector + 1,
                                                 whole - 1, whole, whole + 1, 2 * whole + 3 * vector + 1})
                    all.push_back({type, op, k, count, op == reduce_op::avg ? 1 + static_cast<int>(random.below(9)) : 1,
                                   random.coin(), random.coin(), (k > 1 || op != reduce_op::avg) && random.coin()});
    }
    return all;
}

}  // namespace terrace::detail::test
