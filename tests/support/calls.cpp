#include "support/calls.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include "base/element_types.hpp"

namespace terrace::detail::test {

namespace {

// Type in which the oracle computes, exactly for the values below.
template <class T>
struct wide_of : std::make_unsigned<T> {};
template <class T>
requires is_float_element<T>
struct wide_of<T> {
    using type = double;
};
template <class T>
struct wide_of<std::complex<T>> {
    using type = std::complex<double>;
};
template <>
struct wide_of<bool> {
    using type = std::uint8_t;
};
template <class T>
using wide = typename wide_of<T>::type;

template <class T>
T narrowed(double x) {
    return static_cast<T>(static_cast<accumulator_t<T>>(x));
}

template <class T>
T narrowed(std::complex<double> x) {
    return {narrowed<part_t<T>>(x.real()), narrowed<part_t<T>>(x.imag())};
}

template <class T>
double widened(T x) {
    return static_cast<accumulator_t<T>>(x);
}

std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

template <class T>
T from_bits(std::uint64_t bits) {
    if constexpr (std::is_same_v<T, bool>) return (bits & 1) != 0;
    if constexpr (is_complex<T>) return {from_bits<part_t<T>>(bits), from_bits<part_t<T>>(mixed(bits))};
    T x;
    std::memcpy(static_cast<void*>(&x), &bits, std::min(sizeof x, sizeof bits));
    return x;
}

template <class Wide>
bool is_nan(Wide x) {
    if constexpr (is_complex<Wide>) return std::isnan(x.real());  // here both parts are NaN, or none
    else if constexpr (std::is_floating_point_v<Wide>) return std::isnan(x);
    else return false;
}

bool is_bitwise(reduce_op op) { return op == reduce_op::band || op == reduce_op::bor || op == reduce_op::bxor; }
bool is_logical(reduce_op op) { return op == reduce_op::land || op == reduce_op::lor || op == reduce_op::lxor; }

// Returns the factor of premul_sum. It is 1 on rank 0, so a single rank's result equals its input.
double factor_of(const call& c, int rank) {
    return c.op == reduce_op::premul_sum && c.has_factors && rank % 2 == 1 ? -1 : 1;
}

// Inputs of all ranks and serial results, element by element. An element's number is its index in the vector, or in all
// blocks one after another.
template <element T>
class oracle {
public:
    oracle(const call& c, int ranks, std::uint64_t salt) : c_(c), ranks_(ranks), salt_(mixed(salt)) {}

    T input(std::int64_t i, int rank) const {
        const std::uint64_t dice = mixed(salt_ + static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15u +
                                         static_cast<std::uint64_t>(rank) * 0xd1342543de82ef95u);
        if (!row_of(c_.what).up) return from_bits<T>(dice);  // moved unchanged, NaN included
        if constexpr (is_complex<T>) return {number<part_t<T>>(i, rank, dice), number<part_t<T>>(i, rank, mixed(dice))};
        else if constexpr (is_float_element<T>) return number<T>(i, rank, dice);
        else if constexpr (std::is_same_v<T, bool>) return is_true(dice);
        else return integer(dice);
    }

    T sum_of_all(std::int64_t i) const {
        if (ranks_ == 1) return input(i, 0);  // unchanged: NaN is not made canonical
        wide<T> total = term(i, 0);
        bool nan = is_nan(total);
        for (int r = 1; r < ranks_; ++r) {
            const wide<T> next = term(i, r);
            nan |= is_nan(next);
            total = combined(total, next);
        }
        if constexpr (is_complex<T>) {
            if (nan) return narrowed<T>({not_a_number, not_a_number});
            return {mean<part_t<T>>(total.real()), mean<part_t<T>>(total.imag())};
        } else if constexpr (is_float_element<T>) {
            return nan ? narrowed<T>(not_a_number) : mean<T>(total);
        } else if constexpr (std::is_same_v<T, bool>) {
            return total != 0;
        } else {
            const T whole = static_cast<T>(total);
            return c_.op == reduce_op::avg ? static_cast<T>(average(whole)) : whole;
        }
    }

private:
    static constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

    static wide<T> up(T x) {
        if constexpr (is_float_element<T>) return widened(x);
        else return static_cast<wide<T>>(x);
    }

    // Returns a rank's term of the sum. Factors only change signs, so sums stay exact.
    wide<T> term(std::int64_t i, int rank) const {
        const wide<T> x = up(input(i, rank));
        if constexpr (is_defined(reduce_op::premul_sum, element_type_of<T>)) return x * factor_of(c_, rank);
        else return x;
    }

    template <class Real>
    Real number(std::int64_t i, int rank, std::uint64_t dice) const {
        if (rank == c_.nan_from && i % 3 == rank % 3)
            return narrowed<Real>(std::bit_cast<double>(dice | std::uint64_t{0x7ff8} << 48));
        return narrowed<Real>(c_.data == contents::rough ? rough(dice) : exact(dice));
    }

    template <class Real>
    Real mean(double total) const {
        if (c_.op != reduce_op::avg) return narrowed<Real>(total);
        if constexpr (std::is_same_v<Real, double>) return total / ranks_;
        else return static_cast<Real>(static_cast<float>(total) / static_cast<float>(ranks_));
    }

    // Returns a random truth value: seldom false for land, seldom true for lor, so a single rank can decide the result.
    bool is_true(std::uint64_t dice) const {
        const bool seldom = dice % static_cast<std::uint64_t>(ranks_ + 1) == 0;
        return c_.op == reduce_op::land ? !seldom : c_.op == reduce_op::lor ? seldom : (dice & 1) != 0;
    }

    // Returns a random integer. For bitwise operations a single rank can decide bits; sums and products wrap around.
    T integer(std::uint64_t dice) const {
        if (is_logical(c_.op)) return static_cast<T>(is_true(dice) ? (mixed(dice) | 1) : 0);
        if (!is_bitwise(c_.op) || c_.op == reduce_op::bxor) return static_cast<T>(dice);
        const std::uint64_t sparse = dice & mixed(dice) & mixed(dice + 1);
        return static_cast<T>(c_.op == reduce_op::bor ? sparse : ~sparse);
    }

    auto average(T total) const {
        if constexpr (std::is_signed_v<T>) return std::int64_t{total} / ranks_;
        else return std::uint64_t{total} / static_cast<std::uint64_t>(ranks_);
    }

    // Returns a small whole number, so no partial sum of up to 64 ranks is rounded, even in bfloat16. For products
    // it returns a power of two that keeps them in range; for min and max zeros of both signs, too.
    double exact(std::uint64_t dice) const {
        if (is_complex<T> && c_.op == reduce_op::prod) return dice & 1 ? -1 : 1;
        const int n = static_cast<int>(dice >> 40) % 9 - 4;
        if (c_.op == reduce_op::sum || c_.op == reduce_op::avg || c_.op == reduce_op::premul_sum)
            return n == 0 ? 0.0 : n;
        if (c_.op == reduce_op::prod) return std::ldexp(dice & 1 ? -1 : 1, ranks_ > 8 ? 0 : n % 2);
        return n == 0 ? std::copysign(0.0, dice & 1 ? -1 : 1) : n == 4 ? std::numeric_limits<double>::infinity() : n;
    }

    static double rough(std::uint64_t dice) {
        return std::ldexp(1 + static_cast<double>(dice >> 44) * 0x1p-20, static_cast<int>(dice % 7) - 3) *
               (dice & 64 ? -1 : 1);
    }

    wide<T> combined(wide<T> a, wide<T> b) const {
        // Unsigned arithmetic wraps; short types are promoted to int, where a product must not overflow.
        using safe = std::conditional_t<std::is_integral_v<T> && sizeof(T) < 4, std::uint32_t, wide<T>>;
        if constexpr (std::is_integral_v<wide<T>>) {
            if (c_.op == reduce_op::band) return static_cast<wide<T>>(a & b);
            if (c_.op == reduce_op::bor) return static_cast<wide<T>>(a | b);
            if (c_.op == reduce_op::bxor) return static_cast<wide<T>>(a ^ b);
            if (c_.op == reduce_op::land) return a != 0 && b != 0;
            if (c_.op == reduce_op::lor) return a != 0 || b != 0;
            if (c_.op == reduce_op::lxor) return (a != 0) != (b != 0);
        }
        switch (c_.op) {
            case reduce_op::prod: return static_cast<wide<T>>(static_cast<safe>(a) * static_cast<safe>(b));
            case reduce_op::min: return before(b, a) ? b : a;
            case reduce_op::max: return before(a, b) ? b : a;
            default: return static_cast<wide<T>>(static_cast<safe>(a) + static_cast<safe>(b));
        }
    }

    static bool before(wide<T> a, wide<T> b) {
        if constexpr (is_complex<T>) return false;  // complex numbers have no order
        else if constexpr (is_float_element<T>) return a < b || (a == b && std::signbit(a) && !std::signbit(b));
        else return static_cast<T>(a) < static_cast<T>(b);
    }

    const call& c_;
    int ranks_;
    std::uint64_t salt_;
};

template <element T>
bool same(const T& a, const T& b) {
    // The sign of a zero in a complex product depends on the order of operations.
    if constexpr (is_complex<T>)
        if (a == b) return true;
    return std::memcmp(&a, &b, sizeof(T)) == 0;  // NOLINT(bugprone-suspicious-memory-comparison): every bit counts
}

// A buffer with a guard zone on both sides, all of it poisoned.
template <element T>
class guarded {
public:
    /// Returns the bytes of memory that a buffer needs.
    static std::size_t room(std::int64_t count, int offset) {
        return static_cast<std::size_t>(count + offset) * sizeof(T) + 2 * guard + 64;
    }

    /// @param in the buffer's memory; if empty, the buffer has its own
    guarded(std::int64_t count, int offset, window<std::uint8_t> in)
        : bytes_(static_cast<std::size_t>(count) * sizeof(T)), window_(std::move(in)) {
        if (window_.size() == 0) plain_.resize(room(count, offset));
        memory_ = window_.size() > 0 ? std::as_writable_bytes(window_.span()) : std::span(plain_);
        std::fill(memory_.begin(), memory_.end(), poison);
        data_ = reinterpret_cast<T*>(round_up(memory_.data() + guard) + static_cast<std::size_t>(offset) * sizeof(T));
    }

    T* data() { return data_; }
    T& operator[](std::int64_t i) { return data_[i]; }

    std::int64_t overwritten() const {
        auto* begin = reinterpret_cast<std::byte*>(data_);
        const auto bad = [](std::byte b) { return b != poison; };
        return std::count_if(memory_.data(), begin, bad) +
               std::count_if(begin + bytes_, memory_.data() + memory_.size(), bad);
    }

private:
    static constexpr std::size_t guard = 192;
    static constexpr std::byte poison{0xa5};

    static std::byte* round_up(std::byte* p) { return p + (64 - reinterpret_cast<std::uintptr_t>(p) % 64) % 64; }

    std::size_t bytes_;
    window<std::uint8_t> window_;
    std::vector<std::byte> plain_;
    std::span<std::byte> memory_;
    T* data_;
};

void issue(communicator& comm, const call& c, const void* send, void* recv) {
    const reduction op = c.op == reduce_op::premul_sum ? premul_sum(factor_of(c, comm.rank())) : reduction(c.op);
    switch (c.what) {
        case collective::allreduce: return comm.allreduce(send, recv, c.count, c.type, op);
        case collective::reduce_scatter:
            if (c.counts.empty()) return comm.reduce_scatter(send, recv, c.count, c.type, op);
            return comm.reduce_scatter(send, recv, c.counts, c.type, op);
        case collective::allgather:
            if (c.counts.empty()) return comm.allgather(send, recv, c.count, c.type);
            return comm.allgather(send, recv, c.counts, c.type);
        case collective::alltoall: return comm.alltoall(send, recv, c.count, c.type);
        case collective::gather:
            if (c.counts.empty()) return comm.gather(send, recv, c.count, c.type, c.root);
            return comm.gather(send, recv, c.counts, c.type, c.root);
        case collective::scatter:
            if (c.counts.empty()) return comm.scatter(send, recv, c.count, c.type, c.root);
            return comm.scatter(send, recv, c.counts, c.type, c.root);
        case collective::broadcast: return comm.broadcast(recv, c.count, c.type, c.root);
        case collective::reduce: return comm.reduce(send, recv, c.count, c.type, c.root, op);
    }
}

template <element T>
outcome make_typed(communicator& comm, const call& c, std::uint64_t salt) {
    const int ranks = comm.size(), me = comm.rank();
    const oracle<T> truth(c, ranks, salt);
    const std::vector<std::int64_t> counts =
        c.counts.empty() ? std::vector(static_cast<std::size_t>(ranks), c.count) : c.counts;
    std::vector<std::int64_t> begins(counts.size());
    std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), std::int64_t{0});
    const std::int64_t own = counts[static_cast<std::size_t>(me)], begin = begins[static_cast<std::size_t>(me)];
    const std::int64_t all = row_of(c.what).blocks ? begins.back() + counts.back() : c.count;

    // Elements of the whole vector, or of all blocks, that each buffer holds.
    const bool is_root = me == c.root;
    const range mine{begin, begin + own}, whole{0, all}, nothing{0, 0};
    const range given = row_of(c.what).gives_own_block() ? mine : whole;
    const range due = row_of(c.what).gets_nothing(is_root) ? nothing : row_of(c.what).gets_own_block() ? mine : whole;
    const bool gives = !row_of(c.what).gives_nothing(is_root);
    const bool shared = c.in_place || c.what == collective::broadcast;

    // Some ranks' buffers are not in the windows, since ranks need not agree about that.
    const auto memory = [&](int offset) {
        window<std::uint8_t> made;
        if (c.in_window) made = comm.allocate<std::uint8_t>(guarded<T>::room(all, offset));
        return mixed(salt + static_cast<std::uint64_t>(me)) % 8 == 0 ? window<std::uint8_t>{} : std::move(made);
    };
    guarded<T> first(shared ? all : given.count(), c.offset, memory(c.offset));
    guarded<T> second(shared ? 0 : due.count(), 2 * c.offset, memory(2 * c.offset));
    T* const send = first.data() + (shared ? given.begin : 0);
    T* const recv = shared ? first.data() + due.begin : second.data();
    if (gives)
        for (std::int64_t i = given.begin; i < given.end; ++i) send[i - given.begin] = truth.input(i, me);

    issue(comm, c, send, recv);

    const auto expected = [&](std::int64_t i) {
        if (row_of(c.what).up) return truth.sum_of_all(i);
        if (c.what == collective::alltoall) return truth.input(begin + i % c.count, static_cast<int>(i / c.count));
        const auto after = std::upper_bound(begins.begin(), begins.end(), i) - 1;
        return truth.input(i, row_of(c.what).gives_nothing(false) ? c.root : static_cast<int>(after - begins.begin()));
    };
    outcome result{first.overwritten() + second.overwritten(), 0};
    const bool part = c.digests_are_compared && row_of(c.what).down;  // other ranks check the rest
    if (c.data == contents::exact)
        for (std::int64_t i = due.begin + (part ? me : 0); i < due.end; i += part ? ranks : 1)
            result.wrong += !same(recv[i - due.begin], expected(i));
    for (std::int64_t i = given.begin; gives && i < given.end; ++i) {  // inputs must be unchanged
        const bool kept = !shared || i < due.begin || i >= due.end;
        result.wrong += kept && !same(send[i - given.begin], truth.input(i, me));
    }
    if (row_of(c.what).down) result.digest = XXH3_64bits(recv, static_cast<std::size_t>(all) * sizeof(T));
    return result;
}

}  // namespace

std::vector<reduce_op> ops_of(element_type type) {
    std::vector<reduce_op> ops;
    std::copy_if(all_reduce_ops.begin(), all_reduce_ops.end(), std::back_inserter(ops),
                 [type](reduce_op op) { return is_defined(op, type); });
    return ops;
}

std::string describe(const call& c) {
    const std::string count = c.counts.empty() ? fmt::format("{}{}", row_of(c.what).blocks ? "blocks of " : "", c.count)
                                               : fmt::format("blocks [{}]", fmt::join(c.counts, ","));
    return fmt::format("{} of {}, {}{}{}, {}, offset {}{}{}{}", to_string(c.what), count, to_string(c.type),
                       row_of(c.what).up ? " " : "", row_of(c.what).up ? to_string(c.op) : "",
                       c.in_place ? "in place" : "out of place", c.offset, c.in_window ? ", in windows" : "",
                       row_of(c.what).has_root() ? fmt::format(", root {}", c.root) : "",
                       c.nan_from < 0 ? "" : fmt::format(", NaN from rank {}", c.nan_from));
}

outcome make(communicator& comm, const call& c, std::uint64_t salt) {
    return with_type(c.type, [&]<class T>(std::type_identity<T>) { return make_typed<T>(comm, c, salt); });
}

}  // namespace terrace::detail::test
