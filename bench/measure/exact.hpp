#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <terrace/types.hpp>

namespace terrace::detail::bench {

/// Inputs whose reduction over all ranks, in any grouping, is known and exactly representable, so that results compare
/// with ==. They are small integers without order, repeated after a prime number of elements: what is moved by a block,
/// left out or counted twice shows.
class exact_data {
public:
    exact_data(element_type type, reduce_op op, int rank, int ranks);

    /// This rank's input.
    void fill(std::byte* data, std::int64_t count) const noexcept;
    /// Elements that are not the reduction of all ranks' inputs; data[0] is element `first` of the whole result.
    /// @param rounding what they may be away from it (rounding_error); 0: nothing
    std::int64_t wrong_results(const std::byte* data, std::int64_t first, std::int64_t count,
                               double rounding = 0) const noexcept;
    /// Elements that are not the input of `rank`; data[0] is element `first` of it.
    std::int64_t wrong_inputs(int rank, const std::byte* data, std::int64_t count, std::int64_t first = 0) const {
        return wrong(input_of(rank), data, first, count);
    }
    /// Overwrites a result, so that it is not taken for the next call's.
    void spoil(std::byte* data, std::int64_t count) const noexcept;

    /// A vector repeats these elements.
    using tile = std::vector<std::byte>;
    tile input_of(int rank) const;

private:
    tile reduction() const;
    std::int64_t beyond(double error, const std::byte* data, std::int64_t first, std::int64_t count) const noexcept;
    double largest_together() const;
    std::int64_t wrong(const tile& expected, const std::byte* data, std::int64_t first,
                       std::int64_t count) const noexcept;

    element_type type_;
    reduce_op op_;
    int ranks_;
    std::size_t element_;
    tile input_, result_;
};

}  // namespace terrace::detail::bench
