#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <terrace/gradients.hpp>

#include "gradients/bucket_marks.hpp"

namespace terrace::detail {

/// Sparse gradient of one parameter. Ranks gather the number of rows of each rank, then the row numbers and their
/// values. Each rank adds up equal rows in the order of ranks, so all results have the same bits. If many rows are in
/// use, values are sent as one dense gradient.
class row_exchange {
public:
    row_exchange(const gradient_parameter& p, const gradient_options& o);

    /// Adds rows of this rank, which may repeat. @throws usage_error if a row does not exist
    void add(std::span<const std::int64_t> rows, const void* values);
    /// Clears the rows of this rank.
    void forget() noexcept {
        rows_.clear();
        values_.clear();
    }

    /// Starts the exchange: gathers counts and marks. @param factor of all values, before they are added up
    void start(communicator& comm, const bucket_marks& marks, double factor);
    /// Starts the calls that follow the counts, once these have arrived. Returns true if they have been started. Only
    /// then may another call begin on any communicator, since all ranks keep to one order.
    bool follow_up();
    /// Progresses calls. Returns true if all are complete.
    bool test() { return follow_up() && rows_call_.test() && values_call_.test(); }
    /// Waits until follow_up() has started its calls.
    void wait_for_follow_up() {
        counts_call_.wait();
        follow_up();
    }
    /// Waits until all calls are complete.
    void wait() {
        wait_for_follow_up();
        rows_call_.wait();
        values_call_.wait();
    }
    /// Returns the combined marks of all ranks. After wait().
    bucket_marks marks() const noexcept;

    /// Adds up equal rows. After wait().
    void merge();
    /// Makes the result empty.
    void clear_result() noexcept {
        result_rows_.clear();
        result_.clear();
    }
    /// Returns the rows that any rank has, ascending, and their values.
    std::span<const std::int64_t> rows() const noexcept { return result_rows_; }
    const void* values() const noexcept { return result_.data(); }
    /// Returns true if the values were sent as a dense gradient.
    bool was_dense() const noexcept { return dense_; }

private:
    static constexpr std::size_t words = 3;  // per rank: its number of rows, and its marks

    std::size_t row_bytes() const noexcept { return static_cast<std::size_t>(row_) * size_of(type_); }
    bool is_faster_dense(std::int64_t most, std::size_t padded) const;
    void send_rows();
    void send_dense();
    template <class T>
    void merge_as(std::size_t first, std::size_t last);

    gradient_options options_;
    std::int64_t row_, rows_of_parameter_;
    element_type type_;

    communicator* comm_ = nullptr;
    double factor_ = 1;
    std::array<std::int64_t, words> mine_{};
    std::vector<std::int64_t> all_;              // words of each rank
    std::vector<std::int64_t> rows_, all_rows_;  // row numbers, padded to the same count for each rank
    std::vector<std::byte> values_, all_values_;
    std::vector<std::byte> dense_values_;
    std::vector<std::size_t> order_;  // of all rows: ascending, equal rows in the order of ranks
    std::vector<std::int64_t> result_rows_;
    std::vector<std::byte> result_;
    std::vector<double> sum_;  // of one row
    bool followed_up_ = false, dense_ = false;
    request counts_call_, rows_call_, values_call_;
};

}  // namespace terrace::detail
