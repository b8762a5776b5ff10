#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <terrace/types.hpp>

namespace terrace::bench {

/// Inputs whose sum over all ranks is known and exactly representable, so that results compare with ==. They are small
/// integers without order, repeated after a prime number of elements: what is moved by a block, left out or counted
/// twice shows.
class exact_data {
public:
    exact_data(element_type type, int rank, int ranks);

    /// This rank's input.
    void fill(std::byte* data, std::int64_t count) const noexcept;
    /// Elements that are not the sum of all ranks' inputs.
    std::int64_t wrong(const std::byte* data, std::int64_t count) const noexcept;
    /// Overwrites a result, so that it is not taken for the next call's.
    void spoil(std::byte* data, std::int64_t count) const noexcept;

private:
    std::size_t element_;
    std::vector<std::byte> input_, sum_;  // one period each
};

}  // namespace terrace::bench
