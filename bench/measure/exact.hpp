#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <terrace/types.hpp>

namespace terrace::detail::bench {

/// Inputs whose reduction over all ranks is known and exactly representable in any grouping, so results compare with
/// ==. They are small integers in scrambled order, with a prime number of elements as period. Blocks that are
/// displaced, left out or counted twice therefore show.
class exact_data {
public:
    exact_data(element_type type, reduce_op op, int rank, int ranks);

    /// Writes this rank's input.
    void fill(std::byte* data, std::int64_t count) const noexcept;
    /// Counts elements that differ from the reduction of all inputs; data[0] is element `first` of the whole result.
    /// @param rounding error bound (rounding_error); 0: exact
    std::int64_t wrong_results(const std::byte* data, std::int64_t first, std::int64_t count,
                               double rounding = 0) const noexcept;
    /// Counts elements that differ from the input of `rank`; data[0] is element `first` of the input.
    std::int64_t wrong_inputs(int rank, const std::byte* data, std::int64_t count, std::int64_t first = 0) const {
        return wrong(input_of(rank), data, first, count);
    }
    /// Overwrites a buffer, so an old result cannot pass as that of the next call.
    void spoil(std::byte* data, std::int64_t count) const noexcept;

    /// The elements of one period, which vectors repeat.
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
